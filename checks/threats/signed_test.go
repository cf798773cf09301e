package threats

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// signedEve are tokens of one user as Flask and its library sign them: a session, and a value.
var signedEve = []string{"eyJ1c2VyIjoiZXZlIn0.awRrjQ.Juo80cF1ZzNgDKe61DRyU7Qejhw", "ImV2ZSI.AQoO45Y5y8B8uQ0pTyr2l2qnCqI"}

// signedBy is a protection of services that verify a signed value, and are lenient about its base64. Flask has the
// users that it found there from the first to before the end in its record.
func signedBy(where string, first, end int, key, line string, read func(*record) []string, put func(gen, *message, string)) protection {
	p := protection{
		name: "signed-" + where, rule: fmt.Sprintf("match: {path: /signed/%s}, key: %s, %s", where, key, once), handler: "signed" + where,
		values: func(r *record) []string {
			users := signedSubjects(read(r), where != "query")
			if len(r.Signed) >= end {
				users = append(users, r.Signed[first:end]...)
			}
			return users
		},
		used: []string{"eve"},
		spoil: func(g gen, m *message) {
			put(g, m, g.spellSigned(g.pick(signedEve...)))
		},
	}
	for _, token := range signedEve {
		m := get("/signed/" + where)
		if line == "" {
			m.query = "?user=" + url.QueryEscape(token)
		} else {
			m.lines = []string{fmt.Sprintf(line, token)}
		}
		p.requests = append(p.requests, m)
	}
	return p
}

// spellSigned writes a signed value in another way, as lenient decoders read it.
func (g gen) spellSigned(token string) string {
	dot := strings.LastIndexByte(token, '.') + 1
	head, tail := token[:dot], token[dot:]
	garbage := func() string {
		return strings.Repeat(g.pick("!", "*", "~", "'", "(", "@", "#", "$", "%", "^", "&", "|", ":", "=", "?", ".", ".", "\t", " ", "\x7f", "\xff", "<"), g.some(40))
	}
	for range g.some(3) {
		at := g.IntN(len(tail) + 1)
		switch g.IntN(11) {
		case 0, 1:
			tail += garbage()
		case 2:
			tail = tail[:at] + garbage() + tail[at:]
		case 3:
			last := strings.IndexByte(base64Letters, tail[len(tail)-1])
			if last >= 0 {
				tail = tail[:len(tail)-1] + string(base64Letters[last^g.IntN(4)])
			}
		case 4:
			tail += "=" + g.pick("", "=", freshWord, "=="+freshWord, g.letters(), "="+g.letters())
		case 5:
			tail = strings.NewReplacer("-", "+", "_", "/").Replace(tail)
		case 6, 7: // padding, at which some decoders end
			tail = tail[:at] + strings.Repeat("=", g.some(4)) + tail[at:]
		case 8: // an escape, of which some decoders drop the percent sign
			if digits := hexDigits.FindAllStringIndex(tail, -1); len(digits) > 0 {
				at = digits[g.IntN(len(digits))][0]
				tail = tail[:at] + "%" + tail[at:]
			}
		case 9: // parts that some services ignore
			tail += g.pick("", "=", "!", "==") + "." + g.pick("", "=", freshWord, "."+freshWord, g.letters(), freshWord+"."+freshWord, signedEve[0][strings.LastIndexByte(signedEve[0], '.')+1:])
		case 10: // separators
			tail = g.pick(strings.Repeat(".", g.some(3)), "=.", "!.") + tail
		}
	}
	return head + tail
}

// letters returns some letters of base64.
func (g gen) letters() string {
	b := make([]byte, g.some(60))
	for i := range b {
		b[i] = base64Letters[g.IntN(len(base64Letters))]
	}
	return string(b)
}

// hexDigits are two digits of an escape.
var hexDigits = regexp.MustCompile(`[0-9A-Fa-f]{2}`)

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// signedSubjects returns the users of signed values for a service that decodes their signatures leniently: bytes that are not
// of base64 are dropped, as are unused bits. Some stop at padding, and some at a dot.
// With words, some also split the value at spaces, as a header is split into a scheme and a token.
func signedSubjects(values []string, words bool) []string {
	all := make([]string, 0, len(values))
	for _, value := range values {
		user := ""
		texts := []string{value}
		if words {
			texts = append(texts, strings.Fields(value)...)
		}
		for _, text := range texts {
			if decoded, err := url.PathUnescape(text); err == nil && isSignedByEve(decoded) {
				user = "eve"
			}
			if isSignedByEve(text) {
				user = "eve"
			}
		}
		all = append(all, user)
	}
	return all
}

func isSignedByEve(text string) bool {
	for _, token := range signedEve {
		dot := strings.LastIndexByte(token, '.') + 1
		tail, found := strings.CutPrefix(text, token[:dot])
		part, _, _ := strings.Cut(tail, ".")
		for _, read := range []string{signatureOf(tail, false), signatureOf(tail, true), signatureOf(part, false), signatureOf(part, true)} {
			if found && read == signatureOf(token[dot:], false) {
				return true
			}
		}
	}
	return false
}

// signatureOf returns what a lenient decoder reads, without unused bits: a signature of 20 bytes has 27 characters.
func signatureOf(text string, stops bool) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c == '=' && stops && b.Len()%4 == 3 {
			break
		}
		switch c {
		case '+':
			c = '-'
		case '/':
			c = '_'
		}
		if strings.IndexByte(base64Letters, c) >= 0 {
			b.WriteByte(c)
		}
	}
	s := b.String()
	if len(s) != 27 {
		return "not a signature: " + text
	}
	return s[:26] + string(base64Letters[strings.IndexByte(base64Letters, s[26])&^3])
}

// TestParametersAreReadWhole sends tokens with spaces, and with more behind the spaces, to Flask without a sluice. Flask
// drops spaces, and reads what is behind them as a part of the signature: the model of the attacks reads them likewise.
func TestParametersAreReadWhole(t *testing.T) {
	w := worldFor(t)
	at := slices.IndexFunc(w.services, func(s *protected) bool { return s.name == "flask" })
	if at < 0 {
		t.Fatal("there is no Flask")
	}
	if _, err := w.settle(); err != nil {
		t.Fatal(err)
	}
	token := signedEve[1] // a value, not a session
	for behind, want := range map[string]string{"": "eve", "%20%20": "eve", "%26%26++": "eve", "+/": "", "%20/": "", "+/a": "", "%26%26+++/": "", "+a": ""} {
		if _, err := w.services[at].direct([]byte(simple("/signed/query?user="+token+behind, "Connection: close"))); err != nil {
			t.Fatal(err)
		}
		all, err := w.settle()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(r *record) bool { return slices.Contains(r.Ran, "signedquery") })
		if i < 0 {
			t.Fatalf("Flask got no request with %q behind the token", behind)
		}
		if r := all[i]; len(r.Signed) < 3 || r.Signed[2] != want || !slices.Contains(signedSubjects(r.Query, false), want) {
			t.Errorf("with %q behind the token, Flask reads the users %q of %q, and the model %q; want %q", behind, r.Signed, r.Query, signedSubjects(r.Query, false), want)
		}
	}
}
