package modelusage

import (
	"fmt"
	"strings"
)

// Format is the form of a model's API: where requests and answers have their counts. The zero value is Unknown.
type Format uint8

const (
	// Unknown is the format of an API that this package cannot read.
	Unknown Format = iota
	// OpenAIChat is OpenAI's chat completions, which vLLM, Ollama, Mistral, Groq and Azure have too.
	OpenAIChat
	// OpenAICompletions is OpenAI's older completions.
	OpenAICompletions
	// OpenAIResponses is OpenAI's responses.
	OpenAIResponses
	// OpenAIEmbeddings is OpenAI's embeddings.
	OpenAIEmbeddings
	// AnthropicMessages is Anthropic's messages.
	AnthropicMessages
	// GeminiGenerate is Gemini's generateContent and streamGenerateContent.
	GeminiGenerate
)

// formatNames are the names of the formats in files, by format.
var formatNames = [...]string{
	"unknown", "openai-chat", "openai-completions", "openai-responses", "openai-embeddings", "anthropic-messages", "gemini",
}

// ParseFormat returns the format with a name, such as "openai-chat". The error for another name lists the names.
// "unknown" is not a name.
func ParseFormat(name string) (Format, error) {
	for i, known := range formatNames[1:] {
		if name == known {
			return Format(i + 1), nil
		}
	}
	return Unknown, fmt.Errorf("modelusage: no format has the name %q; use one of %s", name, strings.Join(formatNames[1:], ", "))
}

// String returns the name that ParseFormat reads, or "unknown".
func (f Format) String() string {
	if int(f) >= len(formatNames) {
		return formatNames[Unknown]
	}
	return formatNames[f]
}

// FormatOfPath returns the format of a path of a URL, by how the path ends: services have various prefixes. The path is
// decoded, without a query. FormatOfPath returns Unknown for other paths.
func FormatOfPath(path string) Format {
	path = strings.TrimRight(path, "/")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return OpenAIChat
	case strings.HasSuffix(path, "/completions"):
		return OpenAICompletions
	case strings.HasSuffix(path, "/responses"):
		return OpenAIResponses
	case strings.HasSuffix(path, "/embeddings"):
		return OpenAIEmbeddings
	case strings.HasSuffix(path, "/v1/messages"):
		return AnthropicMessages
	case geminiModel(path) != "":
		return GeminiGenerate
	}
	return Unknown
}

// ModelOfPath returns the model that a path names: the model of Gemini, or the deployment of Azure. It returns ""
// for other paths, whose requests name the model in their body.
func ModelOfPath(path string) string {
	path = strings.TrimRight(path, "/")
	if model := geminiModel(path); model != "" {
		return model
	}
	_, rest, azure := strings.Cut(path, "/openai/deployments/")
	if deployment, operation, found := strings.Cut(rest, "/"); azure && found && FormatOfPath("/"+operation) != Unknown {
		return deployment
	}
	return ""
}

// geminiModel returns MODEL of a path that ends in /MODEL:generateContent or /MODEL:streamGenerateContent, or "".
func geminiModel(path string) string {
	segment := path[strings.LastIndexByte(path, '/')+1:]
	model, method, _ := strings.Cut(segment, ":")
	if !strings.EqualFold(method, "generateContent") && !strings.EqualFold(method, "streamGenerateContent") {
		return ""
	}
	return model
}
