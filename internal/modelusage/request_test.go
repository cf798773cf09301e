package modelusage

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestReadRequest holds what requests of each format say about their cost.
func TestReadRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format     Format
		path, body string
		want       Request
	}{
		{OpenAIChat, "", `{"model":"gpt-4o","messages":[]}`, Request{Model: "gpt-4o", MaxOutput: -1}},
		{OpenAIChat, "", `{"model":"m","max_tokens":100}`, Request{Model: "m", MaxOutput: 100}},
		{OpenAIChat, "", `{"model":"m","max_completion_tokens":100,"n":3}`, Request{Model: "m", MaxOutput: 300}},
		{OpenAIChat, "", `{"max_completion_tokens":100,"max_tokens":200}`, Request{MaxOutput: 200}},
		{OpenAIChat, "", `{"max_tokens":0,"n":5}`, Request{MaxOutput: -1}},
		{OpenAIChat, "", `{"max_tokens":0,"max_completion_tokens":5}`, Request{MaxOutput: 5}},
		{OpenAICompletions, "", `{"max_tokens":0,"n":2}`, Request{MaxOutput: 32}},
		{AnthropicMessages, "", `{"max_tokens":0}`, Request{MaxOutput: -1}},
		{GeminiGenerate, "", `{"generationConfig":{"maxOutputTokens":0}}`, Request{MaxOutput: -1}},
		{OpenAIResponses, "", `{"background":true,"max_output_tokens":9}`, Request{MaxOutput: 9}},
		{OpenAIResponses, "", `{"background":false}`, Request{MaxOutput: -1}},
		{OpenAIChat, "", `{"max_tokens":7,"n":0}`, Request{MaxOutput: 7}},
		{OpenAIChat, "", `{"max_tokens":1e3}`, Request{MaxOutput: 1000}},
		{OpenAIChat, "", `{"max_tokens":1e300,"n":2}`, Request{MaxOutput: Most}},
		{OpenAIChat, "", `{"max_tokens":null,"n":null,"stream":null,"stream_options":null,"model":null}`, Request{MaxOutput: -1}},
		{OpenAIChat, "", ` {"stream" : true , "stream_options" : { "include_usage" : true } } `, Request{MaxOutput: -1, Stream: true, IncludesUsage: true}},
		{OpenAIChat, "", `{"stream":true,"stream_options":{"include_usage":null}}`, Request{MaxOutput: -1, Stream: true}},
		{OpenAIChat, "", `{"max\u005ftokens":5,"model":"caf\u00e9"}`, Request{Model: "café", MaxOutput: 5}},
		{OpenAIChat, "", `{"messages":[{"content":"{\"max_tokens\":1}"}],"tools":{"max_tokens":2,"n":"x"},"max_tokens":3}`, Request{MaxOutput: 3}},
		{OpenAIChat, "/openai/deployments/prod/chat/completions", `{"model":"other","max_tokens":3}`, Request{Model: "prod", MaxOutput: 3}},
		{OpenAIChat, "", `{"model":"m","models":["x"],"max_tokens":9}`, Request{Model: "m", MaxOutput: 9, Unsure: true}},
		{OpenAIResponses, "", `{"model":"m","fallbacks":["x"]}`, Request{Model: "m", MaxOutput: -1, Unsure: true}},
		{OpenAIEmbeddings, "", `{"model":"m","content_policy_fallbacks":[{"m":["x"]}]}`, Request{Model: "m", Unsure: true}},
		{AnthropicMessages, "", `{"model":"m","max_tokens":9,"models":["x"]}`, Request{Model: "m", MaxOutput: 9}},
		{OpenAIChat, "", `{"model":"m","extra_body":{"top_k":5},"max_tokens":9}`, Request{Model: "m", MaxOutput: 9}},
		{OpenAICompletions, "", `{"model":"m"}`, Request{Model: "m", MaxOutput: 16}},
		{OpenAICompletions, "", `{"max_tokens":10,"n":2,"best_of":5}`, Request{MaxOutput: 50}},
		{OpenAICompletions, "", `{"max_tokens":10,"prompt":["a","b","c"]}`, Request{MaxOutput: 30}},
		{OpenAICompletions, "", `{"max_tokens":10,"prompt":[[1,2],[3],[4]],"n":2}`, Request{MaxOutput: 60}},
		{OpenAICompletions, "", `{"max_tokens":10,"prompt":[1,2,3]}`, Request{MaxOutput: 10}},
		{OpenAICompletions, "", `{"max_tokens":10,"prompt":[]}`, Request{MaxOutput: 10}},
		{OpenAICompletions, "", `{"max_tokens":10,"prompt":"a"}`, Request{MaxOutput: 10}},
		{OpenAIResponses, "", `{"model":"o3","max_output_tokens":9,"stream":true}`, Request{Model: "o3", MaxOutput: 9, Stream: true}},
		{OpenAIResponses, "", `{"model":"o3","max_tokens":9}`, Request{Model: "o3", MaxOutput: -1}},
		{OpenAIEmbeddings, "", `{"model":"ada","input":["a"]}`, Request{Model: "ada"}},
		{AnthropicMessages, "", `{"model":"claude","max_tokens":1024,"stream":false}`, Request{Model: "claude", MaxOutput: 1024}},
		{GeminiGenerate, "/v1beta/models/g:generateContent", `{"contents":[]}`, Request{Model: "g", MaxOutput: -1}},
		{
			GeminiGenerate, "/v1beta/models/g:streamGenerateContent", `{"generationConfig":{"maxOutputTokens":50,"candidateCount":2}}`,
			Request{Model: "g", MaxOutput: 100, Stream: true},
		},
		{GeminiGenerate, "", `{"generation_config":{"max_output_tokens":50,"candidate_count":2}}`, Request{MaxOutput: 100}},
		{GeminiGenerate, "", `{"generationConfig":null,"maxOutputTokens":3}`, Request{MaxOutput: -1}},
		{Unknown, "/v1beta/models/g:generateContent", `not JSON`, Request{Model: "g", MaxOutput: -1}},
	} {
		got, err := ReadRequest(test.format, test.path, []byte(test.body))
		if err != nil || got != test.want {
			t.Errorf("ReadRequest(%v, %q, %s) = %+v, %v, want %+v", test.format, test.path, test.body, got, err, test.want)
		}
	}
}

// TestReadRequestRefuses holds that a body that services may read in another way is an error, which names the member.
func TestReadRequestRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format    Format
		body      string
		ambiguous bool
		want      string
	}{
		{OpenAIChat, `{"max_tokens":1,"max_tokens":2}`, true, `member "max_tokens" appears twice; write it once`},
		{OpenAIChat, `{"max_tokens":1,"max_tokens":1}`, true, `member "max_tokens" appears twice`},
		{OpenAIChat, `{"max_tokens":null,"max_tokens":1}`, true, `member "max_tokens" appears twice`},
		{OpenAIChat, `{"max_tokens":1,"m\u0061x_tokens":2}`, true, `member "max_tokens" appears twice`},
		{OpenAIChat, `{"Max_Tokens":1}`, true, `member "Max_Tokens" has other letters in upper case; write "max_tokens"`},
		{OpenAIChat, `{"max_tokens":1,"max_to\u212Aens":2}`, true, `write "max_tokens"`},
		{OpenAIChat, `{"model":"a","MODEL":"b"}`, true, `write "model"`},
		{OpenAIChat, `{"stream_options":{"include_usage":true,"include_usage":false}}`, true, `member "stream_options.include_usage" appears twice`},
		{OpenAICompletions, `{"prompt":"a","prompt":["b","c"]}`, true, `member "prompt" appears twice`},
		{OpenAIChat, `{"model":"a","extra_body":{"model":"b"}}`, true, `member "extra_body" has a member that decides; write it at the top`},
		{OpenAIResponses, `{"max_output_tokens":1,"extra_body":{"max_output_tokens":99}}`, true, `member "extra_body"`},
		{OpenAIChat, `{"max_tokens":1,"extra_body":{"Max_Tokens":99}}`, true, `write "extra_body.max_tokens"`},
		{OpenAIChat, `{"models":["a"],"Models":["b"]}`, true, `write "models"`},
		{OpenAIChat, `{"model":"cheap, dear","max_tokens":1}`, true, `name one model`},
		{OpenAIResponses, `{"background":true}`, false, `member "background" is true, so its answer comes before its usage is known; give max_output_tokens too`},
		{OpenAIResponses, `{"background":true,"max_output_tokens":0,"stream":true}`, false, `give max_output_tokens`},
		{OpenAIResponses, `{"background":1}`, false, `member "background" is 1; write true or false`},
		{GeminiGenerate, `{"generationConfig":{},"generation_config":{}}`, true, `member "generationConfig" appears twice`},
		{GeminiGenerate, `{"generation_config":{"maxOutputTokens":1,"max_output_tokens":2}}`, true, `member "generationConfig.maxOutputTokens" appears twice`},
		{GeminiGenerate, `{"generationConfig":{"candidateCount":1,"candidate_count":2}}`, true, `member "generationConfig.candidateCount" appears twice`},
		{GeminiGenerate, `{"generationConfig":{"maxoutputtokens":1}}`, true, `"generationConfig.maxoutputtokens"`},
		{OpenAIChat, `{"max_tokens":-5}`, false, `member "max_tokens" is -5; write a whole number of at least 0`},
		{OpenAIChat, `{"max_tokens":1.5}`, false, `member "max_tokens" is 1.5`},
		{OpenAIChat, `{"max_tokens":"secret"}`, false, `member "max_tokens" is a string`},
		{OpenAIChat, `{"max_tokens":[1]}`, false, `member "max_tokens" is an array`},
		{OpenAIChat, `{"max_tokens":1` + strings.Repeat("0", 100) + `}`, false, `member "max_tokens" is a number with too many digits`},
		{OpenAIChat, `{"n":true}`, false, `member "n" is true; write a whole number`},
		{OpenAIChat, `{"stream":1}`, false, `member "stream" is 1; write true or false`},
		{OpenAIChat, `{"stream_options":true}`, false, `member "stream_options" is true; write an object`},
		{OpenAIChat, `{"stream_options":{"include_usage":"secret"}}`, false, `member "stream_options.include_usage" is a string`},
		{OpenAIChat, `{"model":{"a":1}}`, false, `member "model" is an object; write a string`},
		{OpenAIResponses, `{"max_output_tokens":{}}`, false, `member "max_output_tokens" is an object`},
		{AnthropicMessages, `{"max_tokens":"secret"}`, false, `member "max_tokens" is a string`},
		{GeminiGenerate, `{"generationConfig":[]}`, false, `member "generationConfig" is an array; write an object`},
		{OpenAIChat, ``, false, `the body is not JSON`},
		{OpenAIChat, `{"max_tokens":1`, false, `the body is not JSON at byte 15`},
		{OpenAIChat, `{"max_tokens":01}`, false, `the body is not JSON at byte 16`},
		{OpenAIChat, `{} {}`, false, `the body is not JSON at byte 4`},
		{OpenAIChat, "\ufeff{}", false, `the body is not JSON at byte 1`},
		{OpenAIChat, `[{}]`, false, `the body is an array; send a JSON object`},
		{OpenAIChat, `null`, false, `the body is null; send a JSON object`},
		{OpenAIChat, `"secret"`, false, `the body is a string; send a JSON object`},
		{OpenAIChat, strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), false, `the body is not JSON`},
	} {
		got, err := ReadRequest(test.format, "", []byte(test.body))
		if err == nil {
			t.Errorf("ReadRequest(%v, %.80s) = %+v, want an error with %q", test.format, test.body, got, test.want)
			continue
		}
		text := err.Error()
		if errors.Is(err, ErrAmbiguous) != test.ambiguous || !strings.Contains(text, test.want) || !strings.HasPrefix(text, "modelusage: ") {
			t.Errorf("ReadRequest(%v, %.80s) has error %q, ambiguous %v, want %q, %v", test.format, test.body, text, !test.ambiguous, test.want, test.ambiguous)
		}
		if strings.Contains(text, "secret") {
			t.Errorf("the error has a value of the body: %q", text)
		}
	}
}

// TestAddIncludeUsage holds that the body changes in one member only.
func TestAddIncludeUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ body, want string }{
		{`{"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{` { "stream" : true } `, ` {"stream_options":{"include_usage":true}, "stream" : true } `},
		{`{"stream":true,"stream_options":null}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"stream_options":{},"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{`{"stream_options":{ },"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{`{"stream_options":{"x":1},"stream":true}`, `{"stream_options":{"include_usage":true,"x":1},"stream":true}`},
		{`{"stream_options":{"x":1,"include_usage": false},"stream":true}`, `{"stream_options":{"include_usage":true,"x":1},"stream":true}`},
		{`{"stream_options":{"include_usage":null},"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{`{"stream":true,"stream_options":{"include_usage":true}}`, ""},
		{`{"stream":false}`, ""},
		{`{}`, ""},
		{`{"stream":true,"stream":true}`, ""},
		{`{"stream":true`, ""},
		{`[]`, ""},
	} {
		body := []byte(test.body)
		got, added := AddIncludeUsage(OpenAIChat, body)
		if want := test.want; added != (want != "") || added && string(got) != want || !added && string(got) != test.body {
			t.Errorf("AddIncludeUsage(%s) = %s, %v, want %s", test.body, got, added, want)
		}
		if string(body) != test.body {
			t.Errorf("AddIncludeUsage changed its argument from %s to %s", test.body, body)
		}
	}
	for _, f := range []Format{Unknown, OpenAIResponses, OpenAIEmbeddings, AnthropicMessages, GeminiGenerate} {
		if got, added := AddIncludeUsage(f, []byte(`{"stream":true}`)); added {
			t.Errorf("AddIncludeUsage(%v) = %s, want no change: the format has no such member", f, got)
		}
	}
}

// FuzzReadRequest holds the reader of requests to encoding/json over any body, and AddIncludeUsage to its promise.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","max_tokens":5,"n":2,"stream":true,"stream_options":{"include_usage":false}}`,
		`{"prompt":["a",[1],2,{}],"best_of":3,"max_completion_tokens":1e3}`, `{"generationConfig":{"maxOutputTokens":1,"candidateCount":3}}`,
		`{"Max_Tokens":1}`, `{"max_tokens":1,"max_tokens":2}`, "[]", "", `{"a":"\\\"","b":[[{}]]}`,
	} {
		f.Add(uint8(1), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, format uint8, body []byte) {
		f := formats[int(format)%len(formats)]
		before := string(body)
		r, err := ReadRequest(f, "", body)
		if string(body) != before {
			t.Fatalf("ReadRequest changed the body %q to %q", before, body)
		}
		if r.MaxOutput < -1 || r.MaxOutput > Most {
			t.Fatalf("ReadRequest(%q) has MaxOutput %d, want -1 to Most", body, r.MaxOutput)
		}
		if !json.Valid(body) && err == nil {
			t.Fatalf("ReadRequest(%q) = %+v, want an error: it is not JSON", body, r)
		}
		if want, wantErr := requestOracle(f, body); (err != nil) != (wantErr != "") || err == nil && r != want {
			t.Fatalf("ReadRequest(%v, %q) = %+v, %v, the oracle has %+v, %s", f, body, r, err, want, wantErr)
		}
		changed, added := AddIncludeUsage(f, body)
		if !added {
			if string(changed) != before {
				t.Fatalf("AddIncludeUsage(%q) = %q, false, want no change", body, changed)
			}
			return
		}
		r.IncludesUsage = true
		if again, err := ReadRequest(f, "", changed); err != nil || again != r {
			t.Fatalf("AddIncludeUsage(%q) = %q, which reads as %+v, %v, want %+v", body, changed, again, err, r)
		}
		var old, now map[string]any
		if json.Unmarshal(body, &old) != nil || json.Unmarshal(changed, &now) != nil {
			// Numbers that are too large for a float64.
			return
		}
		options, _ := old["stream_options"].(map[string]any)
		if options == nil {
			options = map[string]any{}
		}
		options["include_usage"] = true
		old["stream_options"] = options
		if !reflect.DeepEqual(old, now) {
			t.Fatalf("AddIncludeUsage(%q) = %q, which changes another member", body, changed)
		}
	})
}

// requestOracle is ReadRequest by definition, without a path. It returns the reason of an error.
func requestOracle(f Format, body []byte) (r Request, problem string) {
	if !json.Valid(body) {
		return r, "not JSON"
	}
	object, ok := parseOrdered(body).([]pair)
	if !ok {
		return r, "not an object"
	}
	// get returns the value of a member, or nil.
	get := func(in any, name string) any {
		members, _ := in.([]pair)
		var found []any
		for _, member := range members {
			if strings.EqualFold(member.name, name) {
				if member.name != name {
					problem = "spelling of " + member.name
				}
				found = append(found, member.value)
			}
		}
		if len(found) > 1 {
			problem = "twice " + name
		}
		if len(found) == 0 {
			return nil
		}
		return found[0]
	}
	count := func(in any, name string, missing int64) int64 {
		switch value := get(in, name).(type) {
		case nil:
			return missing
		case json.Number:
			if n, ok := countOf(string(value)); ok {
				return n
			}
		}
		problem = "count " + name
		return 0
	}
	text := func(in any, name string) string {
		value := get(in, name)
		got, ok := value.(string)
		if value != nil && !ok {
			problem = "text " + name
		}
		return got
	}
	flag := func(in any, name string) bool {
		value := get(in, name)
		got, ok := value.(bool)
		if value != nil && !ok {
			problem = "flag " + name
		}
		return got
	}
	inside := func(in any, name string) any {
		value := get(in, name)
		if _, ok := value.([]pair); value != nil && !ok {
			problem = "object " + name
		}
		return value
	}
	r.MaxOutput = -1
	if f != GeminiGenerate {
		r.Model = text(object, "model")
	}
	if f != GeminiGenerate && f != OpenAIEmbeddings {
		r.Stream = flag(object, "stream")
	}
	choices := int64(1)
	switch f {
	case OpenAIChat, OpenAICompletions:
		r.MaxOutput = max(count(object, "max_tokens", -1), count(object, "max_completion_tokens", -1))
		choices = max(1, count(object, "n", 1), count(object, "best_of", 1))
		r.IncludesUsage = flag(inside(object, "stream_options"), "include_usage")
		prompt := get(object, "prompt")
		if f == OpenAICompletions {
			if r.MaxOutput < 0 {
				r.MaxOutput = 16
			}
			prompts := int64(0)
			if list, ok := prompt.([]any); ok {
				for _, element := range list {
					switch element.(type) {
					case string, []any, []pair:
						prompts++
					}
				}
			}
			choices = times(choices, max(1, prompts))
		}
	case OpenAIResponses:
		r.MaxOutput = count(object, "max_output_tokens", -1)
	case OpenAIEmbeddings:
		r.MaxOutput = 0
	case AnthropicMessages:
		r.MaxOutput = count(object, "max_tokens", -1)
	case GeminiGenerate:
		// get finds the value in either spelling.
		either := func(in any, camel, snake string) any {
			one, two := all(in, camel), all(in, snake)
			if get(in, camel); len(one) > 0 && len(two) > 0 {
				problem = "two spellings of " + camel
			}
			if get(in, snake); len(two) > 0 {
				return two[0]
			}
			if len(one) > 0 {
				return one[0]
			}
			return nil
		}
		config := either(object, "generationConfig", "generation_config")
		inside([]pair{{"config", config}}, "config")
		r.MaxOutput = count([]pair{{"max", either(config, "maxOutputTokens", "max_output_tokens")}}, "max", -1)
		choices = max(1, count([]pair{{"n", either(config, "candidateCount", "candidate_count")}}, "n", 1))
	}
	if r.MaxOutput > 0 {
		r.MaxOutput = times(r.MaxOutput, choices)
	}
	return r, problem
}
