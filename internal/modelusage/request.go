package modelusage

import (
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
// MaxOutput takes the larger limit if a request has both max_tokens and max_completion_tokens. Embeddings have no output,
// so MaxOutput is 0. ReadRequest does not keep the body. It may be called from several goroutines.
func ReadRequest(f Format, path string, body []byte) (Request, error) {
	r := Request{Model: ModelOfPath(path), MaxOutput: -1}
	if f == Unknown || int(f) >= len(formatNames) {
		return r, nil
	}
	at, err := startOf(body)
	if err != nil {
		return r, err
	}
	var model string
	switch f {
	case OpenAIChat, OpenAICompletions:
		err = r.readOpenAI(f, body, at, &model)
	case OpenAIResponses:
		err = readFields(body, at, "", field{"model", &model}, field{"max_output_tokens", &r.MaxOutput}, field{"stream", &r.Stream})
	case OpenAIEmbeddings:
		r.MaxOutput = 0
		err = readFields(body, at, "", field{"model", &model})
	case AnthropicMessages:
		err = readFields(body, at, "", field{"model", &model}, field{"max_tokens", &r.MaxOutput}, field{"stream", &r.Stream})
	case GeminiGenerate:
		r.Stream = strings.HasSuffix(strings.TrimRight(path, "/"), ":streamGenerateContent")
		err = r.readGemini(body, at)
	}
	if err != nil {
		return Request{MaxOutput: -1}, err
	}
	if r.Model == "" {
		r.Model = model
	}
	return r, nil
}

// readOpenAI reads a request of chat completions or completions.
func (r *Request) readOpenAI(f Format, body []byte, at int, model *string) error {
	var options, prompt span
	var n, bestOf, maxCompletion int64 = 1, 1, -1
	err := readFields(
		body, at, "", field{"model", model}, field{"max_tokens", &r.MaxOutput}, field{"max_completion_tokens", &maxCompletion},
		field{"n", &n}, field{"best_of", &bestOf}, field{"prompt", &prompt}, field{"stream", &r.Stream}, field{"stream_options", &options},
	)
	if err != nil {
		return err
	}
	r.MaxOutput = max(r.MaxOutput, maxCompletion)
	choices := max(1, n, bestOf)
	if f == OpenAICompletions {
		choices = times(choices, countPrompts(body, prompt))
		if r.MaxOutput < 0 {
			r.MaxOutput = defaultCompletion
		}
	}
	if r.MaxOutput > 0 {
		r.MaxOutput = times(r.MaxOutput, choices)
	}
	return readObject(body, "stream_options", options, field{"include_usage", &r.IncludesUsage})
}

// readGemini reads a request of Gemini. Services accept each name in both spellings of protocol buffers.
func (r *Request) readGemini(body []byte, at int) error {
	var config, config2 span
	if err := readFields(body, at, "", field{"generationConfig", &config}, field{"generation_config", &config2}); err != nil {
		return err
	}
	if config.end > 0 && config2.end > 0 {
		return twoSpellings("generationConfig", "generation_config")
	}
	name := "generationConfig"
	if config2.end > 0 {
		name, config = "generation_config", config2
	}
	var output, output2, choices, choices2 int64 = -1, -1, -1, -1
	err := readObject(
		body, name, config, field{"maxOutputTokens", &output}, field{"max_output_tokens", &output2},
		field{"candidateCount", &choices}, field{"candidate_count", &choices2},
	)
	switch {
	case err != nil:
		return err
	case output >= 0 && output2 >= 0:
		return twoSpellings("maxOutputTokens", "max_output_tokens")
	case choices >= 0 && choices2 >= 0:
		return twoSpellings("candidateCount", "candidate_count")
	}
	if r.MaxOutput = max(output, output2); r.MaxOutput > 0 {
		r.MaxOutput = times(r.MaxOutput, max(1, choices, choices2))
	}
	return nil
}

// twoSpellings returns the error for a request of Gemini that has a member in both spellings.
func twoSpellings(name, other string) error {
	return fmt.Errorf("%w: there are members %q and %q; write %q only", ErrAmbiguous, name, other, name)
}

// countPrompts returns how many prompts a request of completions has, at least 1: an array may have several texts, or arrays of
// tokens. An array of numbers is one prompt.
func countPrompts(body []byte, prompt span) int64 {
	if !prompt.given(body) || body[prompt.start] != '[' {
		return 1
	}
	n := int64(0)
	for i := skipSpace(body, prompt.start+1); body[i] != ']'; {
		if body[i] == '"' || body[i] == '[' || body[i] == '{' {
			n++
		}
		if i = skipSpace(body, skipValue(body, i)); body[i] == ',' {
			i = skipSpace(body, i+1)
		}
	}
	return max(1, n)
}

// startOf returns where the object of a body begins. The error has the position where the body is not JSON.
func startOf(body []byte) (int, error) {
	if !json.Valid(body) {
		err := json.Unmarshal(body, new(json.RawMessage))
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return 0, fmt.Errorf("modelusage: the body is not JSON at byte %d: %w; send a JSON object", syntax.Offset, err)
		}
		return 0, fmt.Errorf("modelusage: the body is not JSON: %w; send a JSON object", err)
	}
	at := skipSpace(body, 0)
	if body[at] != '{' {
		return 0, fmt.Errorf("modelusage: the body is %s; send a JSON object", kindOf(body[at:]))
	}
	return at, nil
}

// AddIncludeUsage returns a copy of the body with stream_options.include_usage true, and true. It returns the body itself and
// false if the format has no such member, if the answer is not a stream, if the body includes the usage already, or if
// ReadRequest cannot read the body.
func AddIncludeUsage(f Format, body []byte) ([]byte, bool) {
	if f != OpenAIChat && f != OpenAICompletions {
		return body, false
	}
	r, err := ReadRequest(f, "", body)
	if err != nil || !r.Stream || r.IncludesUsage {
		return body, false
	}
	const whole = `{"include_usage":true}`
	var options, include span
	at := skipSpace(body, 0)
	if readFields(body, at, "", field{"stream_options", &options}) != nil {
		return body, false
	}
	if !options.given(body) {
		if options.end > 0 {
			return replace(body, options, whole), true
		}
		// There are other members, because the member stream is true.
		return replace(body, span{at + 1, at + 1}, `"stream_options":`+whole+","), true
	}
	if readFields(body, options.start, "", field{"include_usage", &include}) != nil {
		return body, false
	}
	if include.end > 0 {
		return replace(body, include, "true"), true
	}
	added := whole[1 : len(whole)-1]
	if body[skipSpace(body, options.start+1)] != '}' {
		added += ","
	}
	return replace(body, span{options.start + 1, options.start + 1}, added), true
}

// replace returns a copy of the body with a text instead of a span.
func replace(body []byte, old span, text string) []byte {
	return slices.Concat(body[:old.start], []byte(text), body[old.end:])
}
