package logs

import (
	"strings"
	"testing"
	"unicode"
)

// readable holds that any text is read to its end: each line is a record or is counted, and time does not go back.
func readable(t *testing.T, format, text string, wanted ...Name) {
	t.Helper()
	r, err := Open(Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Format: format, Wanted: wanted})
	if err != nil {
		if !strings.HasPrefix(err.Error(), "logs: ") || strings.ContainsAny(err.Error(), "\x1b\x00") {
			t.Errorf("opening fails with %q, which names no room or has control characters", err)
		}
		return
	}
	defer r.Close()
	last, n := int64(unknownTime), int64(0)
	for rec := range requests(r) {
		if n++; rec.At < last {
			t.Errorf("the record of line %d is at %d, before the one at %d", rec.Line, rec.At, last)
		}
		last = rec.At
		if rec.Method == "" || rec.Target == "" || rec.Status < 0 || rec.Status > 999 || rec.Duration < -1 || rec.Sent < -1 || rec.Received < -1 || len(rec.Values) != len(r.Layout().Names) {
			t.Errorf("line %d gives %+v", rec.Line, rec)
		}
	}
	s := r.Stats()
	if r.Err() != nil || s.Lines != n+s.Bad+s.Unread || s.Read != int64(len(text)) {
		t.Errorf("%d records of %d bytes: %+v, %v", n, len(text), s, r.Err())
	}
	for _, b := range s.FirstBads {
		if len(b.Text) > 120 || strings.ContainsFunc(b.Text, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("a bad line is shown as %q, want at most 120 bytes that are printable", b.Text)
		}
	}
}

// seeds adds the lines of the cases.
func seeds(f *testing.F, add func(c formatCase)) {
	f.Helper()
	for _, c := range formatCases() {
		add(c)
	}
}

// Any text is read to its end, in each format between literals.
func FuzzTemplates(f *testing.F) {
	seeds(f, func(c formatCase) { f.Add(c.lines) })
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range []string{"auto", "combined", "traefik", "envoy", "haproxy", "alb", "sluice"} {
			readable(t, format, text, wantedNames()...)
		}
	})
}

// Any text is read to its end, as lines of JSON.
func FuzzJSON(f *testing.F) {
	seeds(f, func(c formatCase) { f.Add(c.lines) })
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range []string{"caddy", "traefik", "envoy", "sluice", "json:end=ts,method=a.b,target=c,duration_ns=d,header:X=h"} {
			readable(t, format, text, wantedNames()...)
		}
	})
}

// Any text is read to its end, as columns.
func FuzzColumns(f *testing.F) {
	seeds(f, func(c formatCase) { f.Add(c.lines) })
	f.Add("#Fields: date date time time x y\n#Fields:\n")
	f.Fuzz(func(t *testing.T, text string) { readable(t, "cloudfront", text, wantedNames()...) })
}

// Any parameter of a format gives a clear error, or reads any text to its end.
func FuzzParameters(f *testing.F) {
	seeds(f, func(c formatCase) { f.Add(c.format, c.lines) })
	f.Fuzz(func(t *testing.T, format, text string) { readable(t, format, text, wantedNames()...) })
}
