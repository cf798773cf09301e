// Command bareapi is the floor of the benchmark of the decision API: a net/http server whose handler decodes a question
// and encodes a decision with encoding/json, and decides nothing. A GET is answered with two bytes.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

// question has the fields of a question that nearly all callers send.
type question struct {
	Method   string            `json:"method"`
	Host     string            `json:"host"`
	Path     string            `json:"path"`
	ClientIP string            `json:"client_ip"`
	Headers  map[string]string `json:"headers"`
}

// decision has the fields of the answer to an allowed request with one limit.
type decision struct {
	Allowed      bool    `json:"allowed"`
	Action       string  `json:"action"`
	Rule         string  `json:"rule"`
	Limit        string  `json:"limit"`
	Capacity     int64   `json:"capacity"`
	Remaining    int64   `json:"remaining"`
	DelayMS      int64   `json:"delay_ms"`
	ResetAfterMS int64   `json:"reset_after_ms"`
	Limits       []limit `json:"limits"`
	Explanation  string  `json:"explanation"`
}

type limit struct {
	Rule         string `json:"rule"`
	Limit        string `json:"limit"`
	Algorithm    string `json:"algorithm"`
	Role         string `json:"role"`
	Cost         int64  `json:"cost"`
	Key          string `json:"key"`
	Allowed      bool   `json:"allowed"`
	Capacity     int64  `json:"capacity"`
	Remaining    int64  `json:"remaining"`
	DelayMS      int64  `json:"delay_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
}

// answer is what sluice serve answers in the benchmark, with some of its numbers.
var answer = decision{
	Allowed: true, Action: "allow", Rule: "api", Limit: "api", Capacity: 1_000_000, Remaining: 999_999, ResetAfterMS: 1,
	Limits: []limit{{
		Rule: "api", Limit: "api", Algorithm: "token_bucket(1000000/s)", Role: "enforced", Cost: 1, Key: "aef757adc865f9fe",
		Allowed: true, Capacity: 1_000_000, Remaining: 999_999, ResetAfterMS: 1,
	}},
	Explanation: "allow: the tightest rule is api, 999999 of 1000000 remain\n  rule api\n" +
		"    may        1000000 a second, up to 1000000 at once (token bucket), kept as api\n" +
		"    so         allowed; 999999 of 1000000 remain; full again after 1µs\n    otherwise  refuse with 429",
}

func serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if r.URL.Path != "/auth" { // whose answer has no body, because nginx would not keep the connection
			_, _ = io.WriteString(w, "ok") // the client may be gone
		}
		return
	}
	var q question
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.ClientIP == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&answer) // the client may be gone
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bareapi HOST:PORT")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], http.HandlerFunc(serve))) //nolint:gosec // a floor has no deadlines
	os.Exit(1)
}
