package logs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
)

// slowCuts finds fields byte by byte: the literal behind each ends it, unless it begins with a quote that backslashes escape.
func slowCuts(p *program, line string) (texts []string, ok bool) {
	for _, s := range p.steps {
		end := len(line)
		for at := len(line) - len(s.end); at >= 0 && s.end != ""; at-- {
			slashes := at - len(strings.TrimRight(line[:at], `\`))
			if line[at:at+len(s.end)] == s.end && (s.end[0] != '"' || slashes%2 == 0) {
				end = at
			}
		}
		texts = append(texts, line[:end])
		if end == len(line) {
			return texts, !s.must
		}
		if line = line[end+len(s.end):]; line == "" && !s.must {
			return texts, true
		}
	}
	return texts, true
}

// Fields end at the literals that follow them, wherever these are in a line and however long they are.
func TestFieldsEndAtTheirLiterals(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := func(letters string, least, most int) string {
		b := make([]byte, least+random.IntN(most-least+1))
		for i := range b {
			b[i] = letters[random.IntN(len(letters))]
		}
		return string(b)
	}
	for range soak.Times(t, 20_000) {
		pieces := make([]piece, 1+random.IntN(5))
		for i := range pieces {
			pieces[i] = piece{fields: []field{{kind: value, index: i}}, end: text(` -"[]`, 1, 1+random.IntN(12))}
		}
		p := newProgram(&builder{}, &template{pieces: pieces}, random.IntN(len(pieces)+1), false)
		var line strings.Builder
		for _, s := range pieces {
			line.WriteString(text("ab 01-\\\x80\xff\x1f!", 0, 40) + s.end)
		}
		whole := line.String()[:line.Len()-random.IntN(min(5, line.Len()))]
		want, wantOK := slowCuts(p, whole)
		found, ok := p.find(whole, 0)
		var got []string
		for i := 0; i < found; i += 2 {
			got = append(got, whole[p.cuts[i].from:p.cuts[i].to])
		}
		if ok != wantOK || ok && !slices.Equal(got, want) {
			t.Fatalf("of %q, by %+v, the fields are %q and %v, want %q and %v", whole, pieces, got, ok, want, wantOK)
		}
	}
}
