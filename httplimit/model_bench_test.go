package httplimit_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// modelLimiter returns a middleware with a rule of a cost.
func modelLimiter(tb testing.TB, cost policy.Cost) *httplimit.Middleware {
	tb.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "tokens", Key: []policy.Part{policy.Global()}, Cost: cost,
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1 << 50)})},
	}}})
	if err != nil {
		tb.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
	if err != nil {
		tb.Fatal(err)
	}
	m, err := httplimit.New(d, httplimit.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// plainWriter is a ResponseWriter that keeps nothing.
type plainWriter struct{ header http.Header }

func (w *plainWriter) Header() http.Header             { return w.header }
func (w *plainWriter) WriteHeader(int)                 {}
func (w *plainWriter) Write(p []byte) (int, error)     { return len(p), nil }
func (w *plainWriter) FlushError() error               { return nil }
func (w *plainWriter) SetReadDeadline(time.Time) error { return nil }

// costs are a cost of models, with and without the report of streams, and a cost that is known before.
var costs = map[string]policy.Cost{
	"constant": {Source: policy.CostConstant},
	"model":    {Source: policy.CostModel},
	"trimmed":  {Source: policy.CostModel, Model: &policy.ModelCost{IncludeUsage: true}},
	"zipped":   {Source: policy.CostModel},
}

// chatRequest returns a request with a prompt of some bytes.
func chatRequest(prompt int, stream bool) *http.Request {
	body := fmt.Sprintf(`{"model":"gpt-4o-mini","stream":%v,"max_tokens":500,"messages":[{"role":"user","content":%q}]}`, stream, strings.Repeat("word ", prompt/5))
	return httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
}

const modelChunk = `data: {"id":"chatcmpl-123456789","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

// BenchmarkModelChunk measures the time that a rule adds to a chunk of a stream.
func BenchmarkModelChunk(b *testing.B) {
	for name, cost := range costs {
		b.Run(name, func(b *testing.B) {
			times := make([]time.Duration, 0, b.N)
			chunk := []byte(modelChunk)
			next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(http.StatusOK)
				b.ReportAllocs()
				for b.Loop() {
					began := time.Now()
					_, _ = w.Write(chunk)
					times = append(times, time.Since(began))
				}
			})
			modelLimiter(b, cost).Wrap(next).ServeHTTP(&plainWriter{http.Header{}}, chatRequest(1000, true))
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
		})
	}
}

// BenchmarkModelAnswer measures a call with an answer of 4 KiB of JSON, without a network.
func BenchmarkModelAnswer(b *testing.B) {
	answer := []byte(`{"choices":[{"message":{"content":"` + strings.Repeat("some words ", 360) + `"}}],"usage":{"prompt_tokens":250,"completion_tokens":900,"prompt_tokens_details":{"cached_tokens":20}}}`)
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
	for _, name := range []string{"constant", "model"} {
		h := modelLimiter(b, costs[name]).Wrap(next)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(&plainWriter{http.Header{}}, chatRequest(1000, false))
			}
		})
	}
}

// BenchmarkModelStreams measures the memory that a rule takes for each of 1,000 streams at once, whatever their length.
func BenchmarkModelStreams(b *testing.B) {
	const streams = 1000
	for name, cost := range costs {
		b.Run(name, func(b *testing.B) {
			var zippedChunks bytes.Buffer
			z := gzip.NewWriter(&zippedChunks)
			_, _ = io.WriteString(z, strings.Repeat(modelChunk, 1000))
			_ = z.Flush()
			for b.Loop() {
				m := modelLimiter(b, cost)
				var ready, done sync.WaitGroup
				end := make(chan struct{})
				ready.Add(streams)
				h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					if name == "zipped" {
						w.Header().Set("Content-Encoding", "gzip")
						_, _ = w.Write(zippedChunks.Bytes())
					}
					for i := 0; i < 1000 && name != "zipped"; i++ {
						_, _ = w.Write([]byte(modelChunk))
					}
					ready.Done()
					<-end
				}))
				before := inUse()
				for range streams {
					done.Go(func() { h.ServeHTTP(&plainWriter{http.Header{}}, chatRequest(1000, true)) })
				}
				ready.Wait()
				b.ReportMetric(float64(inUse()-before)/streams, "B/stream")
				close(end)
				done.Wait()
			}
		})
	}
}

// inUse returns how much memory is in use.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc + s.StackInuse
}
