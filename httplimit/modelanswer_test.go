package httplimit_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/modeltest"
	"github.com/sluicehq/sluice/policy"
)

// A stream that reports no usage, or breaks off before, costs a token for each of its events if that is more than what was taken.
func TestStreamsWithoutUsageCostTheirEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, header, body, end string
		events                  int64
	}{
		"no usage":         {chat, "X-Output: 300\r\n", `{"stream":true}`, "openai-chat silent", 300},
		"no usage, zipped": {chat, "X-Output: 300\r\nAccept-Encoding: gzip\r\n", `{"stream":true}`, "openai-chat silent", 300},
		"cut":              {chat, "X-Output: 600\r\nX-Fault: cut\r\n", `{"stream":true}`, "openai-chat broken", 300},
		"messages, cut":    {"/v1/messages", "X-Output: 600\r\nX-Fault: cut\r\n", `{"stream":true}`, "anthropic-messages broken", 300},
		"more was taken":   {chat, "X-Output: 300\r\n", `{"stream":true,"max_tokens":900}`, "openai-chat silent", 900},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startModels(t, policy.Cost{Estimate: 20, Model: &policy.ModelCost{}}, nil)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(strings.TrimSpace(c.header), "\r\n") {
				name, value, _ := strings.Cut(line, ": ")
				r.Header.Set(name, value)
			}
			res, err := m.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body) // it may be cut
			res.Body.Close()
			end := m.end(t)
			if got := m.used(t); res.StatusCode != http.StatusOK || end != c.end || got < c.events || got > c.events+10 {
				t.Errorf("status %d, the answer ended as %q, and %d tokens are charged; want %q and %d, or up to 10 more", res.StatusCode, end, got, c.end, c.events)
			}
		})
	}
}

// Answers are read in each form, and pass on unchanged.
func TestModelAnswers(t *testing.T) {
	t.Parallel()
	body := `{"model":"a","max_tokens":100}`
	stream := `{"model":"a","max_tokens":100,"stream":true}`
	for name, c := range map[string]struct {
		path, header, body string
		include            bool
		used               int64
		end, has, hasNot   string
	}{
		"whole":              {chat, "", body, false, 46, "openai-chat reported", `"completion_tokens":40`, ""},
		"compressed":         {chat, "Accept-Encoding: br, gzip\r\n", body, false, 46, "openai-chat reported", "\x1f\x8b", ""},
		"not compressed":     {chat, "Accept-Encoding: br, gzip;q=0.0\r\n", body, false, 46, "openai-chat reported", `"completion_tokens":40`, ""},
		"stream":             {chat, "", stream, false, 11 + 100, "openai-chat silent", "[DONE]", "completion_tokens"},
		"stream with usage":  {chat, "", stream, true, int64(len(stream)+len(`"stream_options":{"include_usage":true},`))/5 + 40, "openai-chat reported", "[DONE]", "completion_tokens"},
		"stream's own usage": {chat, "", `{"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}}`, true, 14 + 40, "openai-chat reported", "completion_tokens", ""},
		"messages":           {"/v1/messages", "", stream, true, 8 + 40, "anthropic-messages reported", "message_stop", ""},
		"gemini":             {"/v1beta/models/g:streamGenerateContent?alt=sse", "", `{"generationConfig":{"maxOutputTokens":100}}`, false, 8 + 40, "gemini reported", "STOP", ""},
		"responses":          {"/v1/responses", "", `{"max_output_tokens":100,"stream":true}`, false, 7 + 40, "openai-responses reported", "response.completed", ""},
		"silent":             {chat, "X-Fault: silent\r\n", body, false, 8 + 100, "openai-chat silent", "choices", ""},
		"failed":             {chat, "X-Fault: 500\r\n", body, false, 0, "openai-chat failed", "as you wish", ""},
		"killed":             {chat, "X-Fault: kill\r\n", body, false, 8 + 100, "openai-chat silent", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startModels(t, policy.Cost{Model: &policy.ModelCost{IncludeUsage: c.include}}, nil)
			_, got := m.raw(t, post(c.path, c.header, c.body))
			end := m.end(t)
			if end != c.end || !strings.Contains(got, c.has) || c.hasNot != "" && strings.Contains(got, c.hasNot) {
				t.Errorf("the answer ended as %q, not as %q: %q", end, c.end, got)
			}
			if used := m.used(t); used != c.used {
				t.Errorf("%d tokens are used, not %d", used, c.used)
			}
		})
	}
}

// An answer in a compression that is not read stays charged, and is counted.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	m := startModels(t, policy.Cost{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("the service may answer in %q", got)
		}
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	_, _ = m.raw(t, post(chat, "Accept-Encoding: br\r\n", `{"max_tokens":100}`))
	end := m.end(t)
	if used := m.used(t); end != "openai-chat unread" || used != 105 {
		t.Errorf("the answer ended as %q with %d tokens used, not as unread with 105", end, used)
	}
}

// A gzip bomb costs time, and no memory; damaged gzip is not a usage.
func TestDamagedCompressedAnswers(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"no gzip", "\x1f\x8b\x08\x00", strings.Repeat("\x00", 1<<20)} {
		m := startModels(t, policy.Cost{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, content)
		}))
		_, got := m.raw(t, post(chat, "", `{"max_tokens":100}`))
		end := m.end(t)
		if used := m.used(t); got != content || end != "openai-chat silent" || used != 105 {
			t.Errorf("the answer ended as %q with %d tokens used, and %d bytes passed on", end, used, len(got))
		}
	}
}

// A client that hangs up before the usage pays the estimate, or more if more was reported.
func TestHangingUpSavesNothing(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	m := startModels(t, policy.Cost{}, nil)
	m.service.Step = func(r *http.Request, token int) {
		if token == 39 {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL+"/v1/messages", strings.NewReader(`{"model":"a","max_tokens":100,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(modeltest.Output, "40")
	res, err := m.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for range 3 * 38 {
		lines.Scan()
	}
	leave()
	end := m.end(t)
	close(hold)
	if used := m.used(t); end != "anthropic-messages broken" || used != 11+100 {
		t.Errorf("the answer ended as %q, and %d tokens are used, not 111", end, used)
	}
}
