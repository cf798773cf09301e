package modelusage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Request is what the body of a request says about its cost.
type Request struct {
	Model         string // the model, or the deployment; the path decides if it names one
	MaxOutput     int64  // the most output tokens of all choices together; -1 if the request does not limit them
	Stream        bool   // the answer is a stream; the path decides for Gemini
	Unsure        bool   // services such as OpenRouter and LiteLLM may choose another model than Model, from a list in the body
	IncludesUsage bool   // stream_options.include_usage is true: a stream of OpenAI's format reports its usage
}

// ErrAmbiguous is the error for a body that services read in different ways: a member that decides appears twice, or its
// name has other letters in upper case.
var ErrAmbiguous = errors.New("modelusage: the request is ambiguous")

// defaultCompletion is the most output of a choice of OpenAICompletions if the request does not limit it.
const defaultCompletion = 16

// ReadRequest reads the whole body of a request. The errors name the member and the remedy: the body is not a JSON object,
// a member that decides has a value of a wrong type, or it is ambiguous (errors.Is ErrAmbiguous). A member that is null
// is a member that is missing. ReadRequest reads nothing from the body if the format is Unknown.
//
// MaxOutput takes the larger limit if a request has both max_tokens and max_completion_tokens. A limit of 0 is a limit
// that is missing, because services leave out a 0. Embeddings have no output, so MaxOutput is 0. ReadRequest does not
// keep the body. It may be called from several goroutines.
func ReadRequest(f Format, path string, body []byte) (Request, error) {
	r := Request{Model: ModelOfPath(path), MaxOutput: -1}
	if f == Unknown || int(f) >= len(formatNames) {
		return r, nil
	}
	at, err := startOf(body)
	if err != nil {
		return Request{MaxOutput: -1}, err
	}
	var model string
	var prompt, others, extra span
	var background bool
	other, choices, best := int64(-1), int64(1), int64(1)
	limit, fields := "max_tokens", append(make([]field, 0, 16), field{name: "model", to: &model}, field{name: "stream", to: &r.Stream})
	switch f {
	case OpenAIChat, OpenAICompletions:
		fields = append(
			fields, field{name: "max_completion_tokens", to: &other}, field{name: "n", to: &choices}, field{name: "best_of", to: &best},
			field{name: "prompt", to: &prompt}, field{name: "stream_options", inside: []field{{name: "include_usage", to: &r.IncludesUsage}}},
		)
	case OpenAIResponses:
		limit, fields = "max_output_tokens", append(fields, field{name: "background", to: &background})
	case OpenAIEmbeddings:
		limit, fields = "", fields[:1]
		r.MaxOutput = 0
	case GeminiGenerate:
		// Services accept both spellings that protocol buffers have.
		limit, fields = "", []field{{name: "generationConfig", alias: "generation_config", inside: []field{
			{name: "maxOutputTokens", alias: "max_output_tokens", to: &r.MaxOutput},
			{name: "candidateCount", alias: "candidate_count", to: &choices},
		}}}
		r.Stream = strings.HasSuffix(strings.TrimRight(strings.ToLower(path), "/"), ":streamgeneratecontent")
	}
	if limit != "" {
		fields = append(fields, field{name: limit, to: &r.MaxOutput})
	}
	if f != AnthropicMessages && f != GeminiGenerate {
		fields = append(fields, field{name: "extra_body", to: &extra})
		for _, name := range lists {
			fields = append(fields, field{name: name, to: &others})
		}
	}
	if err := readFields(body, at, "", fields); err != nil {
		return Request{MaxOutput: -1}, err
	}
	if err := checkExtra(body, extra); err != nil {
		return Request{MaxOutput: -1}, err
	}
	if strings.Contains(model, ",") {
		return Request{MaxOutput: -1}, fmt.Errorf("%w: member \"model\" has a comma, and LiteLLM calls each model of such a list; name one model", ErrAmbiguous)
	}
	r.Model, r.Unsure = cmp.Or(r.Model, model), others.end > 0
	if r.MaxOutput, choices = max(r.MaxOutput, other), max(1, choices, best); r.MaxOutput == 0 && f != OpenAIEmbeddings {
		r.MaxOutput = -1
	}
	if background && r.MaxOutput < 0 {
		return Request{MaxOutput: -1}, errors.New(`modelusage: member "background" is true, so its answer comes before its usage is known; give max_output_tokens too`)
	}
	if f == OpenAICompletions {
		choices = times(choices, countPrompts(body, prompt))
		if r.MaxOutput < 0 {
			r.MaxOutput = defaultCompletion
		}
	}
	if r.MaxOutput > 0 {
		r.MaxOutput = times(r.MaxOutput, choices)
	}
	return r, nil
}

// lists are the members with other models that services such as OpenRouter and LiteLLM may choose. OpenAI has none of
// them.
var lists = [...]string{"models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"}

// checkExtra refuses members of extra_body that decide: LiteLLM replaces the members of the body by them.
func checkExtra(body []byte, extra span) error {
	if extra.end == 0 || body[extra.start] != '{' {
		return nil
	}
	var replaced span
	var fields []field
	for _, name := range append(lists[:], "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "prompt", "background") {
		fields = append(fields, field{name: name, to: &replaced})
	}
	if err := readFields(body, extra.start, "extra_body.", fields); err != nil {
		return err
	}
	if replaced.end > 0 {
		return fmt.Errorf("%w: member \"extra_body\" has a member that decides; write it at the top", ErrAmbiguous)
	}
	return nil
}

// countPrompts returns how many prompts a request of completions has, at least 1: an array may have several texts, or
// arrays of tokens. An array of numbers is one prompt.
func countPrompts(body []byte, prompt span) int64 {
	n := int64(0)
	if prompt.end == 0 || body[prompt.start] != '[' {
		return 1
	}
	for i := skipSpace(body, prompt.start+1); body[i] != ']'; {
		if body[i] == '"' || body[i] == '[' || body[i] == '{' {
			n++
		}
		i = skipComma(body, skipValue(body, i))
	}
	return max(1, n)
}

// startOf returns where the object of a body begins. The error has the position where the body is not JSON.
func startOf(body []byte) (int, error) {
	if !json.Valid(body) {
		err := json.Unmarshal(body, new(json.RawMessage))
		syntax := new(json.SyntaxError)
		errors.As(err, &syntax)
		return 0, fmt.Errorf("modelusage: the body is not JSON at byte %d: %w; send a JSON object", syntax.Offset, err)
	}
	at := skipSpace(body, 0)
	if body[at] != '{' {
		return 0, fmt.Errorf("modelusage: the body is %s; send a JSON object", kindOf(body[at:]))
	}
	return at, nil
}

// AddIncludeUsage returns a copy of the body with stream_options.include_usage true, and true. It returns the body
// itself and false if the format has no such member, if the answer is not a stream, if the body includes the usage
// already, or if ReadRequest cannot read the body.
func AddIncludeUsage(f Format, body []byte) ([]byte, bool) {
	if f != OpenAIChat && f != OpenAICompletions {
		return body, false
	}
	r, err := ReadRequest(f, "", body)
	if err != nil || !r.Stream || r.IncludesUsage {
		return body, false
	}
	var old span
	var options map[string]json.RawMessage
	at := skipSpace(body, 0)
	err = readFields(body, at, "", []field{{name: "stream_options", to: &old}})
	if err == nil && old.end > 0 {
		err = json.Unmarshal(body[old.start:old.end], &options)
	}
	if options == nil {
		options = make(map[string]json.RawMessage)
	}
	options["include_usage"] = json.RawMessage("true")
	text, err2 := json.Marshal(options)
	if err != nil || err2 != nil {
		return body, false
	}
	if old.end > 0 {
		return slices.Concat(body[:old.start], text, body[old.end:]), true
	}
	// There are other members, because the member stream is true.
	return slices.Concat(body[:at+1], []byte(`"stream_options":`), text, []byte(","), body[at+1:]), true
}
