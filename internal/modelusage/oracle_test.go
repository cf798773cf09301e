package modelusage

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
)

// The oracle computes from definitions, with encoding/json and whole texts. It uses nothing of the scanner.

// pair is a member of an object. Objects keep the order of their members, and members of the same name.
type pair struct {
	name  string
	value any
}

// parseOrdered returns a text of JSON as []pair, []any, json.Number, string, bool or nil.
func parseOrdered(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return nextOrdered(d)
}

func nextOrdered(d *json.Decoder) any {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	switch token {
	case json.Delim('{'):
		object := []pair{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				panic(err)
			}
			object = append(object, pair{name.(string), nextOrdered(d)})
		}
		_, _ = d.Token()
		return object
	case json.Delim('['):
		array := []any{}
		for d.More() {
			array = append(array, nextOrdered(d))
		}
		_, _ = d.Token()
		return array
	}
	return token
}

// all returns the values of the members with a name, in order.
func all(value any, name string) (values []any) {
	object, _ := value.([]pair)
	for _, member := range object {
		if member.name == name {
			values = append(values, member.value)
		}
	}
	return values
}

// expected is what the oracle finds in an answer.
type expected struct {
	usage           Usage
	found, complete bool
}

// oracle computes what a Scanner has to find in documents: the body, or the data of the events. valid is false if a document is
// not JSON.
func oracle(f Format, stream bool, documents [][]byte) (want expected, valid bool) {
	said := map[string]int64{}
	for _, text := range documents {
		if stream && bytes.HasPrefix(text, []byte("[DONE]")) {
			want.complete = true
			continue
		}
		if !json.Valid(text) {
			return want, false
		}
		document := parseOrdered(text)
		if list, ok := document.([]any); ok && f == GeminiGenerate && !stream {
			for _, element := range list {
				takeUsages(f, stream, element, said)
			}
			want.complete = true
		}
		if _, ok := document.([]pair); ok {
			takeUsages(f, stream, document, said)
			want.complete = want.complete || !stream || endsAnswer(f, document)
		}
	}
	want.found = len(said) > 0
	want.usage = disjoint(f, said)
	return want, true
}

// endsAnswer reports whether an event is the last one of its stream.
func endsAnswer(f Format, event any) bool {
	switch f {
	case AnthropicMessages, OpenAIResponses:
		return slices.ContainsFunc(all(event, "type"), func(kind any) bool {
			return kind == "message_stop" || kind == "response.completed" || kind == "response.incomplete" || kind == "response.failed"
		})
	case GeminiGenerate:
		isText := func(value any) bool { _, ok := value.(string); return ok }
		for _, feedback := range all(event, "promptFeedback") {
			if slices.ContainsFunc(all(feedback, "blockReason"), isText) {
				return true
			}
		}
		for _, candidates := range all(event, "candidates") {
			list, ok := candidates.([]any)
			if !ok {
				list = []any{candidates}
			}
			for _, candidate := range list {
				if slices.ContainsFunc(all(candidate, "finishReason"), isText) {
					return true
				}
			}
		}
	}
	return false
}

// takeUsages replaces said with the usages of a document, one after the other.
func takeUsages(f Format, stream bool, document any, said map[string]int64) {
	object, _ := document.([]pair)
	for _, member := range object {
		switch {
		case f == GeminiGenerate:
			if member.name == "usageMetadata" {
				takeUsage(f, member.value, said)
			}
		case f == OpenAIResponses && stream:
			if member.name == "response" {
				for _, usage := range all(member.value, "usage") {
					takeUsage(f, usage, said)
				}
			}
		case member.name == "usage":
			takeUsage(f, member.value, said)
		case member.name == "message" && f == AnthropicMessages && stream,
			member.name == "x_groq" && (f == OpenAIChat || f == OpenAICompletions || f == OpenAIEmbeddings):
			for _, usage := range all(member.value, "usage") {
				takeUsage(f, usage, said)
			}
		}
	}
}

// wireNames are the members of a usage, by format.
var wireNames = map[Format][]string{
	OpenAIChat:        {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details.cached_tokens"},
	OpenAICompletions: {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details.cached_tokens"},
	OpenAIEmbeddings:  {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details.cached_tokens"},
	OpenAIResponses:   {"input_tokens", "output_tokens", "total_tokens", "input_tokens_details.cached_tokens"},
	AnthropicMessages: {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"},
	GeminiGenerate: {
		"promptTokenCount", "candidatesTokenCount", "totalTokenCount", "thoughtsTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount",
	},
}

// takeUsage replaces said with one usage. A usage of Anthropic has only what has changed.
func takeUsage(f Format, usage any, said map[string]int64) {
	taken := map[string]int64{}
	for _, path := range wireNames[f] {
		value, last := usage, any(nil)
		parent, name, nested := strings.Cut(path, ".")
		if nested {
			if parents := all(usage, parent); len(parents) > 0 {
				value = parents[len(parents)-1]
			} else {
				value = nil
			}
		} else {
			name = parent
		}
		if values := all(value, name); len(values) > 0 {
			last = values[len(values)-1]
		}
		if number, ok := last.(json.Number); ok {
			if n, ok := countOf(string(number)); ok {
				taken[path] = n
			}
		}
	}
	if len(taken) == 0 {
		return
	}
	if f != AnthropicMessages {
		clear(said)
	}
	for path, n := range taken {
		said[path] = n
	}
}

// countOf is the definition of parseCount for a number of JSON: the nearest float64.
func countOf(number string) (int64, bool) {
	if len(number) > longestCount {
		return 0, false
	}
	var value float64
	if json.Unmarshal([]byte(number), &value) != nil {
		// The power is beyond the range of a float64.
		return map[bool]int64{true: Most}[number[0] != '-'], number[0] != '-'
	}
	n, accuracy := big.NewFloat(value).Int64()
	if accuracy != big.Exact && value < Most || value < 0 {
		return 0, false
	}
	return min(n, Most), true
}

// disjoint returns the usage that counts of a format amount to.
func disjoint(f Format, said map[string]int64) Usage {
	switch f {
	case AnthropicMessages:
		return Usage{said["input_tokens"], said["cache_read_input_tokens"], said["cache_creation_input_tokens"], said["output_tokens"]}
	case GeminiGenerate:
		output := said["candidatesTokenCount"] + said["thoughtsTokenCount"]
		return shared(said, "promptTokenCount", "totalTokenCount", said["cachedContentTokenCount"], said["toolUsePromptTokenCount"], output)
	}
	names := wireNames[f]
	return shared(said, names[0], "total_tokens", said[names[3]], 0, said[names[1]])
}

// shared returns the usage of a format whose input has what came from the cache. What only the total has is output if the answer has an
// input, and otherwise input.
func shared(said map[string]int64, inputName, totalName string, cached, tools, output int64) Usage {
	input, hasInput := said[inputName]
	switch missing := said[totalName] - input - tools - output; {
	case missing > 0 && hasInput:
		output += missing
	case missing > 0:
		input += missing
	}
	cached = min(cached, input)
	return Usage{Input: input - cached + tools, CachedInput: cached, Output: output}
}

// event is an event of a stream: its bytes with the empty line, and its data.
type event struct {
	bytes, data []byte
	hasData     bool
	ended       bool // the empty line has come
}

// splitEvents splits a stream into events by the definition, with whole lines.
func splitEvents(stream []byte) (events []event) {
	rest := stream
	var now event
	first := true
	for len(rest) > 0 {
		end, next, line := bytes.IndexAny(rest, "\r\n"), len(rest), rest
		if end >= 0 {
			line, next = rest[:end], end+1
			if rest[end] == '\r' && next < len(rest) && rest[next] == '\n' {
				next++
			}
		}
		now.bytes = append(now.bytes, rest[:next]...)
		rest = rest[next:]
		if first {
			line, first = bytes.TrimPrefix(line, []byte("\ufeff")), false
		}
		if len(line) == 0 && end >= 0 {
			now.ended = true
			events, now = append(events, now), event{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) == "data" && (end >= 0 || bytes.IndexByte(line, ':') >= 0) {
			if now.hasData {
				now.data = append(now.data, '\n')
			}
			now.data = append(now.data, bytes.TrimPrefix(value, []byte(" "))...)
			now.hasData = true
		}
	}
	if len(now.bytes) > 0 {
		events = append(events, now)
	}
	return events
}
