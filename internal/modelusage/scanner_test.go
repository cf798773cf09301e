package modelusage

import (
	"strings"
	"testing"
)

// lineEnds writes a stream with LF in other ends of lines.
var lineEnds = []string{"\n", "\r\n", "\r"}

// sse returns a stream of events, each with one line of data.
func sse(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

// answers are answers of each format, as services send them.
var answers = []struct {
	name   string
	format Format
	stream bool
	answer string
	want   expected
}{
	{
		"chat", OpenAIChat, false, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o","choices":[{"index":0,"message":` +
			`{"role":"assistant","content":"Hi \"usage\": {}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,` +
			`"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":6,"audio_tokens":0}}}` + "\n",
		expected{Usage{Input: 15, CachedInput: 4, Output: 10}, true, true},
	},
	{
		"chat stream", OpenAIChat, true, sse(
			`{"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}`,
			`{"id":"1","choices":[{"index":0,"delta":{"content":"{\"usage\":{\"prompt_tokens\":99}}"}}],"usage":null}`,
			`{"id":"1","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29}}`, `[DONE]`),
		expected{Usage{Input: 19, Output: 10}, true, true},
	},
	{"chat stream that was cut", OpenAIChat, true, sse(`{"choices":[{"delta":{"content":"Hi"}}],"usage":null}`), expected{}},
	{
		"usage in each chunk", OpenAIChat, true, sse(
			`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}`,
			`{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}}`),
		expected{Usage{Input: 5, Output: 2}, true, false},
	},
	{
		"Mistral", OpenAIChat, true, sse(
			`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"total_tokens":14,"completion_tokens":9}}`, `[DONE]`),
		expected{Usage{Input: 5, Output: 9}, true, true},
	},
	{"Groq", OpenAIChat, true, sse(
		`{"choices":[{"delta":{"content":"a"}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req","usage":{"queue_time":0.01,"prompt_tokens":22,"prompt_time":0.002,"completion_tokens":8,"total_tokens":30}}}`,
		`[DONE]`), expected{Usage{Input: 22, Output: 8}, true, true}},
	{
		"completions", OpenAICompletions, false, `{"choices":[{"text":"a"}],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`,
		expected{Usage{Input: 5, Output: 7}, true, true},
	},
	{
		"reasoning in the total", OpenAIChat, false, `{"choices":[],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,` +
			`"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94}}}`,
		expected{Usage{Input: 26, CachedInput: 6, Output: 103}, true, true},
	},
	{"no input, and a total", OpenAIChat, false, `{"usage":{"completion_tokens":9,"total_tokens":30}}`, expected{Usage{Input: 21, Output: 9}, true, true}},
	{"embeddings", OpenAIEmbeddings, false, `{"data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`, expected{Usage{Input: 8}, true, true}},
	{"embeddings with a total only", OpenAIEmbeddings, false, `{"data":[],"usage":{"total_tokens":8}}`, expected{Usage{Input: 8}, true, true}},
	{"responses", OpenAIResponses, false, `{"id":"resp","output":[{"content":[{"text":"a"}]}],"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":6},` +
		`"output_tokens":87,"output_tokens_details":{"reasoning_tokens":50},"total_tokens":123}}`, expected{Usage{Input: 30, CachedInput: 6, Output: 87}, true, true}},
	{
		"responses stream", OpenAIResponses, true, "event: response.created\n" + sse(`{"type":"response.created","response":{"usage":null}}`) +
			"event: response.output_text.delta\n" + sse(`{"type":"response.output_text.delta","delta":"a"}`) +
			"event: response.completed\n" + sse(`{"type":"response.completed","response":{"usage":{"input_tokens":36,"output_tokens":87}}}`),
		expected{Usage{Input: 36, Output: 87}, true, true},
	},
	{"responses stream that is incomplete", OpenAIResponses, true, sse(
		`{"response":{"usage":{"input_tokens":3,"output_tokens":4}},"type":"response.incomplete"}`), expected{Usage{Input: 3, Output: 4}, true, true}},
	{"responses stream that failed", OpenAIResponses, true, sse(`{"type":"response.failed","response":{"usage":null}}`), expected{complete: true}},
	{
		"messages", AnthropicMessages, false, `{"type":"message","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":20,` +
			`"cache_read_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":20},"output_tokens":40,"service_tier":"standard"}}`,
		expected{Usage{Input: 10, CachedInput: 30, CacheWrite: 20, Output: 40}, true, true},
	},
	{
		"messages stream", AnthropicMessages, true,
		"event: message_start\n" + sse(`{"type":"message_start","message":{"type":"message","usage":{"input_tokens":25,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}`) +
			"event: ping\n" + sse(`{"type": "ping"}`) +
			"event: content_block_delta\n" + sse(`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"type\":\"message_stop\",\"usage\":{"}}`) +
			"event: message_delta\n" + sse(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`) +
			"event: message_delta\n" + sse(`{"type":"message_delta","delta":{},"usage":{"output_tokens":15,"input_tokens":null}}`) +
			"event: message_stop\n" + sse(`{"type":"message_stop"}`),
		expected{Usage{Input: 25, CachedInput: 4, CacheWrite: 3, Output: 15}, true, true},
	},
	{
		"messages stream without its end", AnthropicMessages, true, sse(
			`{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}`, `{"type":"content_block_delta","delta":{"type":"message_stop"}}`),
		expected{Usage{Input: 25, Output: 1}, true, false},
	},
	{"Gemini", GeminiGenerate, false, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,` +
		`"cachedContentTokenCount":4,"candidatesTokenCount":20,"thoughtsTokenCount":30,"toolUsePromptTokenCount":5,"totalTokenCount":65,` +
		`"promptTokensDetails":[{"modality":"TEXT","tokenCount":10}]}}`, expected{Usage{Input: 11, CachedInput: 4, Output: 50}, true, true}},
	{
		"Gemini stream", GeminiGenerate, true, sse(
			`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":10,"totalTokenCount":10}}`,
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":7,"totalTokenCount":17}}`),
		expected{Usage{Input: 10, Output: 7}, true, true},
	},
	{
		"Gemini stream that was cut", GeminiGenerate, true, sse(`{"candidates":[{"content":{"finishReason":"STOP"}}],"usageMetadata":{"promptTokenCount":10}}`),
		expected{Usage{Input: 10}, true, false},
	},
	{
		"Gemini blocked", GeminiGenerate, true, sse(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":10}}`),
		expected{Usage{Input: 10}, true, true},
	},
	{
		"Gemini array", GeminiGenerate, false, "[{\"usageMetadata\":{\"promptTokenCount\":10}}\n,\n{\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":7}}\n]\n",
		expected{Usage{Input: 10, Output: 7}, true, true},
	},
	{
		"Gemini array that was cut", GeminiGenerate, false, `[{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":7}},{"usageMetadata":{"promptTokenCount":1`,
		expected{Usage{Input: 10, Output: 7}, true, false},
	},
	{"arrays in Gemini's arrays", GeminiGenerate, false, strings.Repeat("[", 20) + `{"usageMetadata":{"promptTokenCount":10}}` + strings.Repeat("]", 20), expected{complete: true}},
	{"error", OpenAIChat, false, `{"error":{"message":"Rate limit","usage":{"prompt_tokens":1}}}`, expected{complete: true}},

	// Usages in other positions, in texts, and values that are not counts.
	{"usage in a text", OpenAIChat, false, `{"choices":[{"message":{"content":"\",\"usage\":{\"prompt_tokens\":1}"}}]}`, expected{complete: true}},
	{"usage in an object", OpenAIChat, false, `{"choices":[{"message":{"tool":{"usage":{"prompt_tokens":1}}},"usage":{"prompt_tokens":1}}]}`, expected{complete: true}},
	{"usage in an array", OpenAIChat, false, `[{"usage":{"prompt_tokens":1}}]`, expected{}},
	{"usage that is an array", OpenAIChat, false, `{"usage":[{"prompt_tokens":1}]}`, expected{complete: true}},
	{"usage in a usage", OpenAIChat, false, `{"usage":{"usage":{"prompt_tokens":1},"completion_tokens":2}}`, expected{Usage{Output: 2}, true, true}},
	{"usage in upper case", OpenAIChat, false, `{"Usage":{"prompt_tokens":1}}`, expected{complete: true}},
	{"usage with escapes", OpenAIChat, false, `{"\u0075\u0073\u0061\u0067\u0065":{"prompt\u005Ftokens":1}}`, expected{Usage{Input: 1}, true, true}},
	{"usage twice", OpenAIChat, false, `{"usage":{"prompt_tokens":1,"completion_tokens":1},"usage":{"prompt_tokens":2}}`, expected{Usage{Input: 2}, true, true}},
	{"usage and null", OpenAIChat, false, `{"usage":{"prompt_tokens":1},"usage":null}`, expected{Usage{Input: 1}, true, true}},
	{"a count twice", OpenAIChat, false, `{"usage":{"prompt_tokens":1,"prompt_tokens":2}}`, expected{Usage{Input: 2}, true, true}},
	{"a count and null", OpenAIChat, false, `{"usage":{"prompt_tokens":1,"completion_tokens":3,"prompt_tokens":null}}`, expected{Usage{Output: 3}, true, true}},
	{"details twice", OpenAIChat, false, `{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":3},"prompt_tokens_details":{}}}`, expected{Usage{Input: 9}, true, true}},
	{"numbers with exponents", OpenAIChat, false, `{"usage":{"prompt_tokens":1e3,"completion_tokens":25E-1}}`, expected{Usage{Input: 1000}, true, true}},
	{"numbers that are not counts", OpenAIChat, false, `{"usage":{"prompt_tokens":-1,"completion_tokens":0.5,"total_tokens":"3"}}`, expected{complete: true}},
	{"a huge number", OpenAIChat, false, `{"usage":{"prompt_tokens":1e99,"completion_tokens":99999999999999999999}}`, expected{Usage{Input: Most, Output: Most}, true, true}},
	{"a number with too many digits", OpenAIChat, false, `{"usage":{"prompt_tokens":1` + strings.Repeat("0", 100_000) + `,"completion_tokens":3}}`, expected{Usage{Output: 3}, true, true}},
	{"more from the cache than input", OpenAIChat, false, `{"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}}`, expected{Usage{CachedInput: 3}, true, true}},
	{"an empty usage", OpenAIChat, false, `{"usage":{}}`, expected{complete: true}},
	{"a usage that was cut", OpenAIChat, false, `{"usage":{"prompt_tokens":3`, expected{}},
	{"a mistake after the usage", OpenAIChat, false, `{"usage":{"prompt_tokens":3},}`, expected{Usage{Input: 3}, true, false}},
	{"more after the answer", OpenAIChat, false, `{"usage":{"prompt_tokens":3}} x`, expected{Usage{Input: 3}, true, false}},
	{"not JSON", OpenAIChat, false, `<html>"usage":{"prompt_tokens":3}</html>`, expected{}},
	{"an empty answer", OpenAIChat, false, ``, expected{}},
	{"a mark", OpenAIChat, false, mark + `{"usage":{"prompt_tokens":3}}`, expected{Usage{Input: 3}, true, true}},
	{"half a mark", OpenAIChat, false, mark[:2] + `{"usage":{"prompt_tokens":3}}`, expected{}},
	{
		"deep", OpenAIChat, false, `{"a":` + strings.Repeat(`[{"a":`, 50_000) + `{"usage":{"prompt_tokens":1}}` + strings.Repeat("}]", 50_000) + `,"usage":{"prompt_tokens":3}}`,
		expected{Usage{Input: 3}, true, true},
	},
	{"long texts", OpenAIChat, false, `{"` + strings.Repeat("k", 100_000) + `":"` + strings.Repeat(`\"`, 100_000) + `","usage":{"prompt_tokens":3}}`, expected{Usage{Input: 3}, true, true}},
	{"an unknown format", Unknown, false, `{"usage":{"prompt_tokens":3}}`, expected{}},

	// Streams in unusual spellings.
	{"comments and other fields", OpenAIChat, true, ": alive\n\n:\nid: 1\nretry: 5\ndatax: {}\ndata:{\"usage\":{\"prompt_tokens\":3}}\n: alive\n\n", expected{Usage{Input: 3}, true, false}},
	{"data over lines", OpenAIChat, true, "data: {\"usage\":\ndata\ndata: {\"prompt_tokens\"\nevent: x\ndata:  : 3}}\n\ndata:[DONE]\n\n", expected{Usage{Input: 3}, true, true}},
	{"a number over lines", OpenAIChat, true, "data: {\"usage\":{\"prompt_tokens\":1\ndata: 2}}\n\n", expected{}},
	{"a mark before a stream", OpenAIChat, true, mark + sse(`{"usage":{"prompt_tokens":3}}`), expected{Usage{Input: 3}, true, false}},
	{"half a mark before a stream", OpenAIChat, true, mark[:1] + sse(`{"usage":{"prompt_tokens":3}}`), expected{}},
	{"an event that is not JSON", OpenAIChat, true, sse(`oops {"usage":{"prompt_tokens":9}}`, `{"usage":{"prompt_tokens":3}}`), expected{Usage{Input: 3}, true, false}},
	{"a text that looks like an event", OpenAIChat, true, sse(`{"choices":[{"delta":{"content":"\n\ndata: [DONE]\n\ndata: {\"usage\":{\"prompt_tokens\":9}}"}}]}`), expected{}},
	{"DONE in an event", OpenAIChat, true, sse(`"[DONE]"`, `{"a":"[DONE]"}`, "\ndata: [DONE]"), expected{}},
	{"DONE without an empty line", OpenAIChat, true, "data: [DONE]", expected{complete: true}},
	{"a body that is a stream", OpenAIChat, false, sse(`{"usage":{"prompt_tokens":3}}`), expected{}},
	{"a stream that is a body", OpenAIChat, true, `{"usage":{"prompt_tokens":3}}`, expected{}},
}

// TestScannerFindsUsages holds what answers of each format report: in one piece, split once at each byte, and byte by byte. Streams
// have all three ends of lines.
func TestScannerFindsUsages(t *testing.T) {
	t.Parallel()
	for _, test := range answers {
		ends := lineEnds
		if !test.stream {
			ends = lineEnds[:1]
		}
		for _, end := range ends {
			answer := []byte(strings.ReplaceAll(test.answer, "\n", end))
			bytewise := make([]int, len(answer))
			for i := range answer {
				bytewise[i] = i
				if len(answer) < 10_000 {
					if got := scan(test.format, test.stream, answer, i); got != test.want {
						t.Fatalf("%s, lines ending in %q, split at %d: the scanner found %+v, want %+v", test.name, end, i, got, test.want)
					}
				}
			}
			if got := scan(test.format, test.stream, answer); got != test.want {
				t.Errorf("%s, lines ending in %q: the scanner found %+v, want %+v", test.name, end, got, test.want)
			}
			if got := scan(test.format, test.stream, answer, bytewise...); got != test.want {
				t.Errorf("%s, lines ending in %q, byte by byte: the scanner found %+v, want %+v", test.name, end, got, test.want)
			}
		}
	}
}

// TestScannerReportsAsItReads holds that a usage is there as soon as its object has ended.
func TestScannerReportsAsItReads(t *testing.T) {
	t.Parallel()
	s := NewScanner(AnthropicMessages, true)
	for _, step := range []struct {
		piece string
		want  expected
	}{
		{`data: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1`, expected{}},
		{`}`, expected{Usage{Input: 25, Output: 1}, true, false}},
		{`}}` + "\n\n" + `data: {"usage":{"output_tokens":7}}`, expected{Usage{Input: 25, Output: 7}, true, false}},
		{"\n\n" + `data: {"type":"message_stop"`, expected{Usage{Input: 25, Output: 7}, true, false}},
		{`}`, expected{Usage{Input: 25, Output: 7}, true, true}},
	} {
		if n, err := s.Write([]byte(step.piece)); n != len(step.piece) || err != nil {
			t.Fatalf("Write(%q) = %d, %v, want all bytes", step.piece, n, err)
		}
		usage, found := s.Usage()
		if got := (expected{usage, found, s.Complete()}); got != step.want {
			t.Errorf("after %q: the scanner found %+v, want %+v", step.piece, got, step.want)
		}
	}
}

// TestScannerAllocatesNothing holds that writing allocates nothing, whatever the answer.
func TestScannerAllocatesNothing(t *testing.T) {
	for _, test := range answers {
		answer, s := []byte(test.answer), NewScanner(test.format, test.stream)
		if n := testing.AllocsPerRun(20, func() { _, _ = s.Write(answer) }); n != 0 {
			t.Errorf("%s: a Write allocates %v times, want 0", test.name, n)
		}
	}
}

// FuzzScanner holds the scanner to the oracle over any bytes, and pieces to the whole.
func FuzzScanner(f *testing.F) {
	for _, test := range answers {
		if len(test.answer) < 2_000 {
			format := 0
			for i := range formats {
				if formats[i] == test.format {
					format = i
				}
			}
			f.Add(uint8(format), test.stream, []byte(test.answer), uint16(len(test.answer)/2), uint16(3))
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, stream bool, answer []byte, first, second uint16) {
		f := formats[int(format)%len(formats)]
		got := scan(f, stream, answer)
		one := int(first) % (len(answer) + 1)
		two := one + int(second)%(len(answer)-one+1)
		if pieces := scan(f, stream, answer, one, two); pieces != got {
			t.Fatalf("%v, stream %v, %q: split at %d and %d the scanner found %+v, in one piece %+v", f, stream, answer, one, two, pieces, got)
		}
		documents := [][]byte{[]byte(strings.TrimPrefix(string(answer), mark))}
		if stream {
			documents = nil
			for _, event := range splitEvents(answer) {
				if event.hasData {
					documents = append(documents, event.data)
				}
			}
		}
		if want, valid := oracle(f, stream, documents); valid && got != want {
			t.Fatalf("%v, stream %v: the scanner found %+v, the oracle %+v in %q", f, stream, got, want, answer)
		}
	})
}

// BenchmarkScanStream scans chunks of a chat in which nothing counts.
func BenchmarkScanStream(b *testing.B) {
	chunk := []byte(sse(`{"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012","object":"chat.completion.chunk","created":1732700000,"model":"gpt-4o-2024-08-06",` +
		`"service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" language"},"logprobs":null,` +
		`"finish_reason":null}],"usage":null}`))
	benchmarkScan(b, NewScanner(OpenAIChat, true), chunk)
}

// BenchmarkScanMessages scans deltas of Anthropic's messages.
func BenchmarkScanMessages(b *testing.B) {
	chunk := []byte("event: content_block_delta\n" + sse(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" language"}}`))
	benchmarkScan(b, NewScanner(AnthropicMessages, true), chunk)
}

func benchmarkScan(b *testing.B, s *Scanner, chunk []byte) {
	b.Helper()
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.Write(chunk)
	}
}

// BenchmarkScanAnswer scans a JSON answer of 4 KiB, with a new scanner for each.
func BenchmarkScanAnswer(b *testing.B) {
	answer := []byte(strings.Replace(answers[0].answer, "Hi", strings.Repeat(`words and \"quotes\" `, 177), 1))
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		s := NewScanner(OpenAIChat, false)
		_, _ = s.Write(answer)
		if u, _ := s.Usage(); u.Output != 10 {
			b.Fatalf("the scanner found %+v, want an output of 10", u)
		}
	}
}

// BenchmarkReadRequest reads a request of 4 KiB.
func BenchmarkReadRequest(b *testing.B) {
	body := []byte(`{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("words and more ", 268) + `"}],"max_tokens":100,"stream":true}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if r, err := ReadRequest(OpenAIChat, "/v1/chat/completions", body); err != nil || r.MaxOutput != 100 {
			b.Fatalf("ReadRequest = %+v, %v, want an output of 100", r, err)
		}
	}
}
