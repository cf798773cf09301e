package sampled

import (
	"strings"
	"testing"
)

// TestBriefRemovesQuotedTexts shortens texts for the log, and removes what they quote: a client or a service may have written it.
func TestBriefRemovesQuotedTexts(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain: EOF": "plain: EOF", `malformed HTTP response "key=hunter2", really`: "malformed HTTP response …, really",
		`open "hunter2`: "open …", "a\nb\x00c\xffd\\e": "a?b?c?d?e",
		`of "a \"hunter2\" b\\"; EOF`: "of …; EOF",
		strings.Repeat("x", 1<<20):    strings.Repeat("x", 253) + "…",
		strings.Repeat("é", 1<<20):    strings.Repeat("é", 126) + "…",
	} {
		if got := Brief(text); got != want || len(got) > 256 {
			t.Errorf("%.40q became %q, want %q", text, got, want)
		}
	}
}
