package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// expanded returns the text that a template must become, computed character by character.
func expanded(text, wait, rule string) string {
	var b strings.Builder
	for text != "" {
		switch {
		case strings.HasPrefix(text, "{wait}"):
			b.WriteString(wait)
			text = text[len("{wait}"):]
		case strings.HasPrefix(text, "{rule}"):
			b.WriteString(rule)
			text = text[len("{rule}"):]
		default:
			b.WriteByte(text[0])
			text = text[1:]
		}
	}
	return b.String()
}

// In any template, only its two names are replaced, once, and a header stays one line.
func FuzzBodyTemplate(f *testing.F) {
	for _, text := range []string{"", "{wait}", "{rule}", "{{wait}}", "{ru{rule}le}", `{"a":{wait},"b":"{rule}","c":{}}`, "{wait", "}{rule}{", "{WAIT} {wait }", "\x00{wait}\xff"} {
		f.Add(text, int64(1500))
	}
	f.Fuzz(func(t *testing.T, text string, ms int64) {
		ms %= 1 << 40
		if ms < 0 {
			ms = -ms
		}
		rule := policy.Rule{Name: "the-rule", Key: []policy.Part{policy.Global()}, Limits: hourly(1), WhenLimited: policy.LimitedAction{Body: text, Header: map[string]string{"X-Text": text}}}
		p, err := policy.New(policy.Options{Rules: []policy.Rule{rule}})
		if err != nil {
			return // a header cannot hold it
		}
		again := time.Duration(ms) * time.Millisecond
		v := policy.Verdict{
			Action: policy.Deny, Reason: sluice.ReasonLimited, Rule: p.Rule("the-rule"),
			Tightest: sluice.Decision{Limit: 1, RetryAfter: again}, TightestLimit: p.Rule("the-rule").Limits[0],
		}
		w := httptest.NewRecorder()
		if err := httplimit.WriteDenied(w, get("/"), &v); err != nil {
			t.Error(err)
		}
		seconds := int64((again + time.Second - 1) / time.Second)
		want := expanded(text, itoa(seconds), "the-rule")
		if got := w.Body.String(); text != "" && got != want {
			t.Errorf("%q became %q; want %q", text, got, want)
		}
		if got := w.Header().Get("X-Text"); got != want {
			t.Errorf("the header %q became %q; want %q", text, got, want)
		}
		if strings.ContainsAny(w.Header().Get("X-Text"), "\r\n") || w.Code != http.StatusTooManyRequests {
			t.Errorf("the refusal has status %d and headers %v", w.Code, w.Header())
		}
	})
}
