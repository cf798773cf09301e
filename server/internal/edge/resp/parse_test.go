package resp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// small are bounds that tests reach.
var small = bounds{args: 4, bytes: 64}

// Commands are read as Redis reads them, or refused.
func TestCommandsAreReadAsRedisReadsThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ give, want string }{
		{"*1\r\n$4\r\nPING\r\n", `["PING"]`},
		{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", `["ECHO" ""]`},
		{"*1\r\n$6\r\na\r\nb\r\n\r\n", `["a\r\nb\r\n"]`},
		{"*0\r\n", `[]`},
		{"*-1\r\n", `[]`},
		{"\r\n", `[]`},
		{"\n", `[]`},
		{"  \t\r\n", `[]`},
		{"*01\r\n$04\r\nPING\r\n", `["PING"]`},
		{"PING\r\n", `["PING"] inline`},
		{"PING\n", `["PING"] inline`},
		{"  set  a\tb \r\n", `["set" "a" "b"] inline`},
		{"a\rb\x00c\n", `["a" "b" "c"] inline`},
		{"\v\f PING\n", `["PING"] inline`},
		{`echo "a b" 'c d'` + "\n", `["echo" "a b" "c d"] inline`},
		{`echo "\x41\n\t\"\\\q\xzz"` + "\n", `["echo" "A\n\t\"\\qxzz"] inline`},
		{`echo 'it\'s \n'` + "\n", `["echo" "it's \\n"] inline`},
		{`echo ""` + "\n", `["echo" ""] inline`},
		{`a"b c"` + "\n", `["ab c"] inline`},

		{`echo "a` + "\n", "unbalanced quotes in request"},
		{`echo "a"b` + "\n", "unbalanced quotes in request"},
		{`echo 'a\'` + "\n", "unbalanced quotes in request"},
		{"a b c d e\n", "more than 4 words"},
		{strings.Repeat("x", 64), "a command has more than 64 bytes"},
		{strings.Repeat("x", 64) + "\n", "a command has more than 64 bytes"},
		{"*x\r\n", "invalid multibulk length"},
		{"*\r\n", "invalid multibulk length"},
		{"*1\n", "invalid multibulk length"},
		{"*-2\r\n", "invalid multibulk length"},
		{"*+1\r\n", "invalid multibulk length"},
		{"*99999999999\r\n", "invalid multibulk length"},
		{"*5\r\n", "invalid multibulk length: 5 words are more than 4"},
		{"*1\r\nPING\r\n", "expected '$', got \"P\""},
		{"*1\r\n$-1\r\n", "invalid bulk length"},
		{"*1\r\n$x\r\n", "invalid bulk length"},
		{"*1\r\n$2\r\nabc\r\n", "a word is longer than its length"},
		{"*1\r\n$4\r\nab\r\n*1", "a word is longer than its length"},
		{"*1\r\n$55\r\n", "invalid bulk length: a command has up to 64 bytes"},
		{"*1\r\n$2147483647\r\n", "invalid bulk length"},
		{"*1\r\n$9223372036854775807\r\n", "invalid bulk length"},
		{"*" + strings.Repeat("1", 40), "too big multibulk count string"},
		{"*1\r\n$" + strings.Repeat("1", 40), "too big bulk count string"},
	} {
		got, err := parse([]byte(c.give), nil, small)
		text := fmt.Sprintf("%q", got.args)
		if got.inline && len(got.args) > 0 {
			text += " inline"
		}
		if err != nil {
			text = strings.TrimPrefix(err.Error(), "Protocol error: ")
		} else if got.size != len(c.give) {
			t.Errorf("%q: %d bytes are read, want %d", c.give, got.size, len(c.give))
		}
		if text != c.want && (err == nil || !strings.HasPrefix(text, c.want)) {
			t.Errorf("%q: %s, want %s", c.give, text, c.want)
		}
		if err != nil {
			continue
		}
		// Each part of a command is incomplete.
		for i := range c.give {
			if _, err := parse([]byte(c.give[:i]), nil, small); !errors.Is(err, errIncomplete) {
				t.Errorf("%q: %v, want incomplete", c.give[:i], err)
			}
		}
	}
}

// FuzzParseCommands: whatever arrives, the parser reads commands within its bounds, and the same commands in whatever parts
// they arrive.
func FuzzParseCommands(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$4\r\nECHO\r\n$1\r\na\r\nPING\r\n", "PING\r\n*0\r\n", "*1\r\n$3\r\nabc", `a "b c" 'd'` + "\r\n", "*1\r\n$-1\r\n", "*3\r\n$1\r\n", "\x00\n*1\r\n",
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, input []byte, part int) {
		all, end := commands(t, [][]byte{input})
		cut := min(max(part, 0), len(input))
		again, endAgain := commands(t, [][]byte{input[:cut], input[cut:]})
		if all != again || end != endAgain {
			t.Errorf("at once %s, %s; in two parts %s, %s", all, end, again, endAgain)
		}
	})
}

// commands parses what arrives in parts, as a connection does.
func commands(t *testing.T, parts [][]byte) (all, end string) {
	t.Helper()
	var buf []byte
	var b strings.Builder
	for _, part := range parts {
		buf = append(buf, part...)
		for {
			c, err := parse(buf, nil, small)
			if errors.Is(err, errIncomplete) {
				if len(buf) >= small.bytes {
					t.Fatalf("%d bytes are an incomplete command", len(buf))
				}
				break
			}
			if err != nil {
				return b.String(), err.Error()
			}
			if c.size < 1 || c.size > len(buf) || c.size > small.bytes || len(c.args) > small.args {
				t.Fatalf("%d bytes of %d, %d words", c.size, len(buf), len(c.args))
			}
			fmt.Fprintf(&b, "%q ", c.args)
			buf = append([]byte(nil), buf[c.size:]...)
		}
	}
	return b.String(), "incomplete"
}
