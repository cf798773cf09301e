package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// BenchmarkCheck measures a decision and batches of them, beside a handler that only decodes and encodes such JSON.
// The handlers are called without a server.
func BenchmarkCheck(b *testing.B) {
	file, err := policyfile.Parse("test.yaml", []byte("version: 1\nrules: [{name: api, match: {path: /api/**}, key: client_ip, limit: {algorithm: token_bucket, rate: 1000000/s}}]"))
	if err != nil {
		b.Fatal(err)
	}
	p, err := file.Policy()
	if err != nil {
		b.Fatal(err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	a, err := New(Options{
		Decider: deciding(b, p, store), Fingerprint: func(sluice.Key) string { return "0123456789abcdef" },
		DeniedKeys: func(context.Context, string, int) (none wire.Keys) { return none }, Pressure: func(string) float64 { return 0 }, Overrides: noOverrides{},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	floor := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q request
		if json.NewDecoder(r.Body).Decode(&q) != nil {
			b.Error("the body is not JSON")
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&decision{Allowed: true, Action: "allow", Rule: "api", Limits: []limitDecision{{Rule: "api"}}, Explanation: strings.Repeat("x", 250)})
	})
	const question = `{"method":"GET","path":"/api/x","client_ip":"192.0.2.%d"}`
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(question, i))
	}
	for _, bench := range []struct {
		name string
		h    http.Handler
		body string
	}{
		{"Floor", floor, fmt.Sprintf(question, 1)},
		{"One", a, fmt.Sprintf(question, 1)},
		{"Batch100", a, `{"requests":[` + strings.Join(many, ",") + `]}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/check", nil)
			if err != nil {
				b.Fatal(err)
			}
			body := bytes.NewReader([]byte(bench.body))
			w := gateway.NewAnswer()
			b.ReportAllocs()
			for b.Loop() {
				body.Reset([]byte(bench.body))
				r.Body, r.ContentLength = io.NopCloser(body), int64(len(bench.body))
				clear(w.Header())
				w.Body = w.Body[:0]
				bench.h.ServeHTTP(w, r)
			}
		})
	}
}
