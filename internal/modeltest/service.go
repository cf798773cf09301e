// Package modeltest has a fake service of language models, and callers of it, for tests. The service speaks each
// format, and keeps an account of what it would bill.
package modeltest

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// The headers of a request that say what the service does with it.
const (
	// Output is how many tokens the model wants to write.
	Output = "X-Output"
	// Fault is what goes wrong: "400", "500", "cut" in the middle of the answer, "kill" before it, "silent" for no usage.
	Fault = "X-Fault"
)

// Service is a fake service. Its input is one token for five bytes of the request's body. It is safe for concurrent use.
type Service struct {
	mu     sync.Mutex
	billed int64
	calls  int
	bodies map[string]bool
	// Step, if not nil, is called between the pieces of a stream.
	Step func(r *http.Request, token int)
}

// Billed returns how many tokens the service has billed, and for how many calls.
func (s *Service) Billed() (tokens int64, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.billed, s.calls
}

// Got reports whether a request with a body came.
func (s *Service) Got(body string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[body]
}

// call is a request as the service reads it.
type call struct {
	input, output int64
	stream, usage bool
	fault         string
}

// InputOf returns how many tokens the service takes a body for.
func InputOf(body string) int64 { return int64(len(body)) / 5 }

func (s *Service) read(r *http.Request) (c call, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return c, err
	}
	s.mu.Lock()
	if s.bodies == nil {
		s.bodies = map[string]bool{}
	}
	s.bodies[string(body)] = true
	s.mu.Unlock()
	var q struct {
		MaxTokens           *int64 `json:"max_tokens"`
		MaxCompletionTokens *int64 `json:"max_completion_tokens"`
		MaxOutputTokens     *int64 `json:"max_output_tokens"`
		GenerationConfig    struct {
			MaxOutputTokens *int64 `json:"maxOutputTokens"`
		} `json:"generationConfig"`
		Stream        bool `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return c, err
	}
	c = call{input: InputOf(string(body)), stream: q.Stream || strings.Contains(r.URL.Path, ":stream"), usage: q.StreamOptions.IncludeUsage, fault: r.Header.Get(Fault)}
	c.output, _ = strconv.ParseInt(r.Header.Get(Output), 10, 64)
	for _, most := range []*int64{q.MaxTokens, q.MaxCompletionTokens, q.MaxOutputTokens, q.GenerationConfig.MaxOutputTokens} {
		if most != nil {
			c.output = min(c.output, *most)
		}
	}
	return c, nil
}

func (s *Service) bill(tokens int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.billed += tokens
	s.calls++
}

// ServeHTTP answers a request in the format of its path.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, `{"data":[]}`)
		return
	}
	c, err := s.read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch c.fault {
	case "400", "500":
		status, _ := strconv.Atoi(c.fault)
		http.Error(w, `{"error":{"message":"as you wish"}}`, status)
		return
	case "kill":
		s.bill(c.input + c.output) // the model worked for nothing
		panic(http.ErrAbortHandler)
	}
	f := formatOf(r.URL.Path)
	if !c.stream {
		s.bill(c.input + c.output)
		w.Header().Set("Content-Type", "application/json")
		to := io.Writer(w)
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			to = z
		}
		_, _ = io.WriteString(to, f.whole(c))
		return
	}
	s.stream(w, r, f, c)
}

// stream writes an answer token by token.
func (s *Service) stream(w http.ResponseWriter, r *http.Request, f form, c call) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(text string) {
		_, _ = io.WriteString(w, text)
		_ = control.Flush()
	}
	send(f.first(c))
	for i := range c.output {
		if c.fault == "cut" && i == c.output/2 {
			s.bill(c.input + i)
			panic(http.ErrAbortHandler)
		}
		if s.Step != nil {
			s.Step(r, int(i))
		}
		if r.Context().Err() != nil {
			s.bill(c.input + i)
			return
		}
		send(f.token(c, i+1))
	}
	s.bill(c.input + c.output)
	send(f.last(c))
}

// form is how a format is written.
type form struct {
	whole       func(call) string
	first, last func(call) string
	token       func(c call, n int64) string
}

// formatOf returns the form of a path.
func formatOf(path string) form {
	none := func(call) string { return "" }
	said := func(c call, text string) string {
		if c.fault == "silent" {
			return ""
		}
		return text
	}
	openAI := func(c call) string {
		return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, c.input, c.output, c.input+c.output)
	}
	switch {
	case strings.Contains(path, "/messages"):
		return form{
			whole: func(c call) string {
				return `{"type":"message","content":[{"type":"text","text":"{\"usage\":{}}"}]` + said(c, fmt.Sprintf(`,"usage":{"input_tokens":%d,"output_tokens":%d}`, c.input, c.output)) + "}"
			},
			first: func(c call) string {
				return "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":" + fmt.Sprintf(`{"input_tokens":%d,"output_tokens":1}`, c.input) + "}}\n\n"
			},
			token: func(call, int64) string {
				return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\"}}\n\n"
			},
			last: func(c call) string {
				return said(c, fmt.Sprintf("event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":%d}}\n\n", c.output)) +
					"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
			},
		}
	case strings.Contains(path, "enerateContent"):
		usage := func(c call, n int64) string {
			return said(c, fmt.Sprintf(`,"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d}`, c.input, n, c.input+n))
		}
		part := func(c call, n int64, finish string) string {
			return `{"candidates":[{"content":{"parts":[{"text":"a"}]}` + finish + `}]` + usage(c, n) + "}"
		}
		return form{
			whole: func(c call) string { return part(c, c.output, `,"finishReason":"STOP"`) }, first: none,
			token: func(c call, n int64) string { return "data: " + part(c, n, "") + "\r\n\r\n" },
			last:  func(c call) string { return "data: " + part(c, c.output, `,"finishReason":"STOP"`) + "\r\n\r\n" },
		}
	case strings.Contains(path, "/responses"):
		usage := func(c call) string {
			return said(c, fmt.Sprintf(`,"usage":{"input_tokens":%d,"output_tokens":%d}`, c.input, c.output))
		}
		return form{
			whole: func(c call) string { return `{"object":"response"` + usage(c) + "}" },
			first: func(call) string {
				return "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n"
			},
			token: func(call, int64) string {
				return "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n"
			},
			last: func(c call) string {
				return "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"" + usage(c) + "}}\n\n"
			},
		}
	}
	return form{
		whole: func(c call) string { return `{"choices":[{"message":{"content":"a"}}]` + said(c, ","+openAI(c)) + "}" }, first: none,
		token: func(call, int64) string {
			return "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n"
		},
		last: func(c call) string {
			if c.usage && c.fault != "silent" {
				return "data: {\"choices\":[]," + openAI(c) + "}\n\ndata: [DONE]\n\n"
			}
			return "data: [DONE]\n\n"
		},
	}
}
