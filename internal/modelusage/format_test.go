package modelusage

import (
	"strings"
	"testing"
)

// TestFormatsHaveTheirNames holds that each format has one name, and that the error for another name lists all of them.
func TestFormatsHaveTheirNames(t *testing.T) {
	t.Parallel()
	_, err := ParseFormat("openai")
	if err == nil {
		t.Fatal("ParseFormat(openai) has no error, want one that lists the names")
	}
	for _, f := range formats {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("ParseFormat(%q) = %v, %v, want the format", f.String(), got, err)
		}
		if !strings.Contains(err.Error(), f.String()) {
			t.Errorf("the error for a wrong name does not list %q: %v", f, err)
		}
	}
	if got, err := ParseFormat("unknown"); err == nil {
		t.Errorf("ParseFormat(unknown) = %v, want an error: a file names a format", got)
	}
	if got := Format(99).String(); got != "unknown" {
		t.Errorf("Format(99) has the name %q, want unknown", got)
	}
}

// TestPathsNameFormatsAndModels holds the format and the model of paths as services have them.
func TestPathsNameFormatsAndModels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, model string
		format      Format
	}{
		{"/v1/chat/completions", "", OpenAIChat},
		{"/openai/v1/chat/completions", "", OpenAIChat},
		{"/chat/completions/", "", OpenAIChat},
		{"/v1/completions", "", OpenAICompletions},
		{"/v1/responses", "", OpenAIResponses},
		{"/openai/responses", "", OpenAIResponses},
		{"/v1/embeddings", "", OpenAIEmbeddings},
		{"/v1/messages", "", AnthropicMessages},
		{"/anthropic/v1/messages", "", AnthropicMessages},
		{"/openai/deployments/gpt-4o/chat/completions", "gpt-4o", OpenAIChat},
		{"/openai/deployments/old/completions", "old", OpenAICompletions},
		{"/azure/openai/deployments/ada/embeddings", "ada", OpenAIEmbeddings},
		{"/openai/deployments/gpt-4o", "", Unknown},
		{"/openai/deployments/gpt-4o/images/generations", "", Unknown},
		{"/v1beta/models/gemini-2.5-flash:generateContent", "gemini-2.5-flash", GeminiGenerate},
		{"/v1beta/models/gemini-2.5-flash:streamGenerateContent", "gemini-2.5-flash", GeminiGenerate},
		{"/v1/projects/p/locations/l/publishers/google/models/g:generateContent", "g", GeminiGenerate},
		{"/v1beta/models/gemini-2.5-flash:countTokens", "", Unknown},
		{"/v1beta/models/:generateContent", "", Unknown},
		{"/v1beta/models/a:b:generateContent", "", Unknown},
		{"/v1/messages/count_tokens", "", Unknown},
		{"/v1/threads/t/messages", "", Unknown},
		{"/v1/responses/resp_1", "", Unknown},
		{"/v1/models", "", Unknown},
		{"/xcompletions", "", Unknown},
		{"/", "", Unknown},
		{"", "", Unknown},
	} {
		if f, model := FormatOfPath(test.path), ModelOfPath(test.path); f != test.format || model != test.model {
			t.Errorf("path %q has format %v and model %q, want %v and %q", test.path, f, model, test.format, test.model)
		}
	}
}
