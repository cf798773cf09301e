package modelusage

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
)

// extra is the event that AddIncludeUsage adds.
const extra = `{"id":"1","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29}}`

// trim returns what a trimmer passes on of a stream that comes in pieces, which end at the given indexes.
func trim(t *testing.T, stream []byte, ends ...int) string {
	t.Helper()
	var passed bytes.Buffer
	trimmer := NewTrimmer(&passed)
	from := 0
	for _, end := range append(ends, len(stream)) {
		if n, err := trimmer.Write(stream[from:end]); n != end-from || err != nil {
			t.Fatalf("Write of %q = %d, %v, want all bytes", stream[from:end], n, err)
		}
		if len(trimmer.held) > mostHeld {
			t.Fatalf("the trimmer holds back %d bytes, want at most %d", len(trimmer.held), mostHeld)
		}
		from = end
	}
	if err := trimmer.Close(); err != nil {
		t.Fatalf("Close has error %v, want none", err)
	}
	return passed.String()
}

// streams are streams, and what a trimmer passes on of them if that is another stream.
var streams = []struct{ name, stream, want string }{
	{"OpenAI", sse(`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, extra, "[DONE]"), sse(`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, "[DONE]")},
	{"at the end", sse(`{"choices":[{}]}`, extra), sse(`{"choices":[{}]}`)},
	{"at the end without an empty line", sse(`{"choices":[{}]}`) + "data: " + extra, sse(`{"choices":[{}]}`)},
	{"usage before choices", sse(`{"usage":{"prompt_tokens":1},"choices":[]}`, "[DONE]"), sse("[DONE]")},
	{"comments", ": a\n\n: b\ndata: " + extra + "\n: c\n\n: d\n\n", ": a\n\n: b\n: d\n\n"},
	{"a mark", mark + sse(extra, "[DONE]"), mark + sse("[DONE]")},
	{"other fields", "event: x\nid: 1\ndata: " + extra + "\n\nid: 2\n\n", "id: 2\n\n"},
	{"data over lines", "data: {\"choices\": [\ndata: ],\ndata: \"usage\":{\"prompt_tokens\":1}}\n\n" + sse("[DONE]"), sse("[DONE]")},
	{"Mistral", sse(`{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}`), ""},
	{"Azure's filter results", sse(`{"choices":[],"prompt_filter_results":[{}],"usage":null}`, `{"choices":[],"prompt_filter_results":[{}]}`), ""},
	{"no usage", sse(`{"choices":[]}`, `{"choices":[],"usage":{}}`, `{"choices":[],"usage":[1]}`), ""},
	{"no choices", sse(`{"usage":{"prompt_tokens":1}}`, `{"choices":{},"usage":{"prompt_tokens":1}}`, `{"choices":null,"usage":{"prompt_tokens":1}}`), ""},
	{"choices twice", sse(`{"choices":[],"choices":[1],"usage":{"prompt_tokens":1}}`), ""},
	{"more after it", "data: " + extra + "\ndata: x\n\n", ""},
	{"in a text", sse(`{"choices":[{"delta":{"content":"{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}"}}]}`), ""},
	{"in an object", sse(`{"x":`+extra+`}`, `[`+extra+`]`), ""},
	{"not JSON", sse("oops", extra+"x"), ""},
	{"too long", sse(extra[:len(extra)-1] + `,"x":"` + strings.Repeat("x", mostHeld) + `"}`), ""},
	{"cut", sse(`{"choices":[{}]}`) + `data: {"choices":[],"usage"`, ""},
	{"empty", "", ""},
}

// TestTrimmerRemovesTheExtraEvent holds that a trimmer removes the extra event and nothing else, for all ends of lines: in one
// piece, split once at each byte, and byte by byte.
func TestTrimmerRemovesTheExtraEvent(t *testing.T) {
	t.Parallel()
	for _, test := range streams {
		if test.want == "" {
			test.want = test.stream
		}
		for _, end := range lineEnds {
			stream, want := []byte(strings.ReplaceAll(test.stream, "\n", end)), strings.ReplaceAll(test.want, "\n", end)
			bytewise := make([]int, len(stream))
			for i := range stream {
				bytewise[i] = i
				if len(stream) > 5_000 && i%500 > 0 {
					continue
				}
				if got := trim(t, stream, i); got != want {
					t.Fatalf("%s, lines ending in %q, split at %d: the trimmer passed on %q, want %q", test.name, end, i, got, want)
				}
			}
			if got := trim(t, stream); got != want {
				t.Errorf("%s, lines ending in %q: the trimmer passed on %q, want %q", test.name, end, got, want)
			}
			if got := trim(t, stream, bytewise...); got != want {
				t.Errorf("%s, lines ending in %q, byte by byte: the trimmer passed on %q, want %q", test.name, end, got, want)
			}
		}
	}
}

// TestTrimmerPassesOnAtOnce holds that bytes are passed on as soon as they cannot belong to the extra event.
func TestTrimmerPassesOnAtOnce(t *testing.T) {
	t.Parallel()
	var passed bytes.Buffer
	trimmer := NewTrimmer(&passed)
	for _, step := range []struct{ piece, want string }{
		{": alive\n", ": alive\n"},
		{"\n", "\n"},
		{`data: {"id":"1","choices":`, ""},
		{`[`, ""},
		{`{`, `data: {"id":"1","choices":[{`},
		{`"delta":{"content":"a"}`, `"delta":{"content":"a"}`},
		{"}]}\n\ndata: ", "}]}\n\n"},
		{"{}", "data: {}"},
		{"\n\ndata: [", "\n\ndata: ["},
		{"DONE]\n", "DONE]\n"},
		{"\n", "\n"},
		{"data: " + extra + "\n\n: x\n\ndata: " + extra + "\n\n:y", ": x\n\n:y"},
	} {
		passed.Reset()
		if _, err := io.WriteString(trimmer, step.piece); err != nil {
			t.Fatalf("Write(%q) has error %v, want none", step.piece, err)
		}
		if passed.String() != step.want {
			t.Errorf("Write(%q) passed on %q, want %q", step.piece, passed.String(), step.want)
		}
	}
}

// failing is a writer that fails.
type failing struct {
	n   int
	err error
}

func (f failing) Write([]byte) (int, error) { return f.n, f.err }

// TestTrimmerReturnsErrors holds that the trimmer returns the errors of its writer.
func TestTrimmerReturnsErrors(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client has left")
	for _, stream := range []string{": x\n\n", sse(`{"choices":[{}]}`), "\n" + sse(extra), "data: {"} {
		trimmer := NewTrimmer(failing{0, gone})
		n, err := io.WriteString(trimmer, stream)
		if err == nil {
			err = trimmer.Close()
		} else if n >= len(stream) {
			t.Errorf("Write(%q) = %d with an error, want less than all bytes", stream, n)
		}
		if !errors.Is(err, gone) {
			t.Errorf("writing %q has error %v, want the writer's", stream, err)
		}
	}
	if _, err := io.WriteString(NewTrimmer(failing{1, nil}), "\n\n"); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a short write has error %v, want io.ErrShortWrite", err)
	}
}

// trimOracle is a Trimmer by definition, over a whole stream. valid is false if it depends on data that is not JSON.
func trimOracle(stream []byte) (want string) {
	var kept bytes.Buffer
	for _, event := range splitEvents(stream) {
		documents := [][]byte{event.data}
		_, valid := oracle(OpenAIChat, false, documents)
		removed := false
		if event.hasData && valid {
			object := parseOrdered(event.data)
			empty, filled, reported := false, false, false
			for _, choices := range all(object, "choices") {
				list, ok := choices.([]any)
				empty, filled = empty || ok && len(list) == 0, filled || len(list) > 0
			}
			for _, usage := range all(object, "usage") {
				said := map[string]int64{}
				takeUsage(OpenAIChat, usage, said)
				reported = reported || len(said) > 0
			}
			removed = empty && !filled && reported
		}
		if !removed {
			kept.Write(event.bytes)
			continue
		}
		// Comments before the first field are passed on at once, and so is a mark.
		rest := event.bytes
		if bytes.HasPrefix(stream, []byte(mark)) && bytes.HasPrefix(rest, []byte(mark)) && kept.Len() == 0 {
			kept.WriteString(mark)
			rest = rest[len(mark):]
		}
		for len(rest) > 0 && rest[0] == ':' {
			end := bytes.IndexAny(rest, "\r\n") + 1
			if end < len(rest) && rest[end-1] == '\r' && rest[end] == '\n' {
				end++
			}
			kept.Write(rest[:end])
			rest = rest[end:]
		}
	}
	return kept.String()
}

// TestTrimmerPassesWhatTheOraclePasses holds the trimmer to the oracle over random streams in random pieces.
func TestTrimmerPassesWhatTheOraclePasses(t *testing.T) {
	t.Parallel()
	removed := 0
	streams := soak.Times(t, 1_000)
	for seed := range uint64(streams) {
		r := rand.New(rand.NewPCG(seed, 27))
		var stream bytes.Buffer
		for range 1 + r.IntN(6) {
			end := lineEnds[r.IntN(3)]
			stream.WriteString([]string{"", "", ": c" + end, end, "event: x" + end, ":" + end + end}[r.IntN(6)])
			w := writer{Rand: r}
			w.object(5, []string{"choices", "usage", "id", "x_groq"}[:1+r.IntN(4)]...)
			data := []string{extra, "[DONE]", w.String(), `{"choices":[],` + w.String()[1:]}[r.IntN(4)]
			stream.WriteString("data: " + data + end + end)
		}
		ends := randomEnds(r, stream.Len())
		got, want := trim(t, stream.Bytes(), ends...), trimOracle(stream.Bytes())
		if got != want {
			t.Fatalf("seed %d, pieces end at %v: the trimmer passed on\n%q, the oracle\n%q of\n%q", seed, ends, got, want, stream.String())
		}
		if len(got) < stream.Len() {
			removed++
		}
	}
	if least := streams / 4; removed < least {
		t.Errorf("of %d random streams %d had an extra event, want at least %d", streams, removed, least)
	}
}

// FuzzTrimmer holds the trimmer to the oracle over any bytes, and pieces to the whole.
func FuzzTrimmer(f *testing.F) {
	for _, test := range streams {
		if len(test.stream) < 2_000 {
			f.Add([]byte(test.stream), uint16(len(test.stream)/2), uint16(3))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, first, second uint16) {
		got := trim(t, stream)
		one := int(first) % (len(stream) + 1)
		two := one + int(second)%(len(stream)-one+1)
		if pieces := trim(t, stream, one, two); pieces != got {
			t.Fatalf("%q: split at %d and %d the trimmer passed on %q, in one piece %q", stream, one, two, pieces, got)
		}
		if want := trimOracle(stream); len(stream) < mostHeld && got != want && validEvents(stream) {
			t.Fatalf("the trimmer passed on %q, the oracle %q of %q", got, want, stream)
		}
	})
}

// validEvents reports whether the data of all events is what services send: JSON, or [DONE].
func validEvents(stream []byte) bool {
	for _, event := range splitEvents(stream) {
		if _, valid := oracle(OpenAIChat, true, [][]byte{event.data}); event.hasData && !valid {
			return false
		}
	}
	return true
}

// BenchmarkTrimmer passes on chunks of a chat.
func BenchmarkTrimmer(b *testing.B) {
	chunk := []byte(sse(`{"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012","object":"chat.completion.chunk","created":1732700000,"model":"gpt-4o-2024-08-06",` +
		`"choices":[{"index":0,"delta":{"content":" language"},"logprobs":null,"finish_reason":null}],"usage":null}`))
	trimmer := NewTrimmer(io.Discard)
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = trimmer.Write(chunk)
	}
}
