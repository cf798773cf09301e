package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
)

// answers are the answers to a batch.
type answers struct {
	Answers []struct {
		Decision *decision
		Problem  *problem
	}
}

// batch makes a call with a batch, and checks the answer against openapi.yaml.
func (s *service) batch(path string, requests ...string) answers {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(`{"requests": [`+strings.Join(requests, ",")+`]}`))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.described.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var got answers
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	if len(got.Answers) != len(requests) {
		s.t.Fatalf("%d answers to %d requests", len(got.Answers), len(requests))
	}
	return got
}

// Each request of a batch has its own verdict or its own problem, in the order of the requests.
func TestEachRequestOfABatchHasItsVerdict(t *testing.T) {
	seen := 0
	s := serve(t, perClient, func(o *Options) { o.OnVerdict = func(*policy.Verdict, time.Duration) { seen++ } })
	const who, other = `{"client_ip": "192.0.2.1"}`, `{"client_ip": "192.0.2.2"}`
	requests := []string{who, `{"client_ip": "x"}`, who, `7`, who, `{"requests": []}`, other, `{"rule": "per-client", "key": ["192.0.2.2"]}`, `{"path": "/", "path": "/"}`, other, `{"path": "/\u0061", "client_ip": "192.0.2.3"}`, `null`}
	if got := s.batch("/v1/peek", requests...); seen != 0 || !got.Answers[4].Decision.Allowed || *got.Answers[4].Decision.Remaining != 2 {
		t.Errorf("a peek: %d verdicts, %+v", seen, got.Answers[4].Decision)
	}
	got := s.batch("/v1/check", requests...)
	if seen != 7 {
		t.Errorf("%d verdicts were observed, want 7", seen)
	}
	for i, want := range []string{"allow", "client_ip", "allow", "", "deny", "requests", "allow", "allow", "path", "deny", "allow", ""} {
		switch a := got.Answers[i]; {
		case want == "allow" || want == "deny":
			if a.Problem != nil || a.Decision.Action != want || a.Decision.Rule != "per-client" || len(a.Decision.Limits) != 1 || a.Decision.Explanation == "" {
				t.Errorf("%s: %+v, want %s", requests[i], a, want)
			}
		case a.Decision != nil || a.Problem.Status != http.StatusBadRequest || a.Problem.Field != want || a.Problem.Remedy == "":
			t.Errorf("%s: %+v, want a problem of field %q", requests[i], a.Problem, want)
		}
	}
	s.batch("/v1/check")
}

// A batch that is not valid as a whole charges nothing.
func TestBatchesThatAreRefused(t *testing.T) {
	s := serve(t, perClient, nil)
	const who = `{"client_ip": "192.0.2.1"}`
	for body, want := range map[string]struct{ path, field, remedy string }{
		`{"requests": [` + who + `}`:                                               {"", "", "send one JSON object"},
		`{"requests": [` + who + `]`:                                               {"", "", "whole JSON object"},
		`{"requests": [` + who + `]} 1`:                                            {"", "", "one JSON object"},
		`{"requests": [` + who + `], "cost": 1}`:                                   {"", "cost", "each request"},
		`{"requests": [` + who + `], "requests": []}`:                              {"", "requests", "once"},
		`{"request": [` + who + `]}`:                                               {"", "request", `"requests"`},
		`{"requests": ` + who + `}`:                                                {"", "requests", "a list"},
		`{"requests": [` + strings.Repeat(who+",", mostQuestions) + who + `]}`:     {"", "requests", "1000"},
		`{"requests": [` + strings.Repeat(`1,`, mostQuestions) + who + `]}`:        {"", "requests", "1000"},
		`{"requests": ["` + strings.Repeat(who+",", 3)[:10] + `\x", ` + who + `]}`: {"", "", "JSON"},
		`{"requests": [` + who + ` ]}`:                                             {"?status=429", "?status", "leave status out"},
	} {
		if r := s.call("/v1/check"+want.path, body); r.status != http.StatusBadRequest || r.Field != want.field || !strings.Contains(r.Remedy, want.remedy) {
			t.Errorf("%.60s: status %d, field %q, detail %q, remedy %q", body, r.status, r.Field, r.Detail, r.Remedy)
		}
	}
	for _, path := range []string{"/v1/reserve", "/v1/acquire"} {
		if r := s.call(path, `{"requests": [`+who+`]}`); r.status != http.StatusBadRequest || r.Field != "requests" {
			t.Errorf("%s takes no batches, but got %+v", path, r)
		}
	}
	if r := s.want(true, "/v1/peek", who); *r.Remaining != 2 {
		t.Errorf("%d remain of 2", *r.Remaining)
	}
}

// A delay is for the caller to wait, and a lease is given back before the next request is decided.
func TestBatchesDoNotWait(t *testing.T) {
	s := serve(t, `rules:
  - {name: queue, match: {path: /q}, key: client_ip, limit: {algorithm: leaky_bucket, rate: 1/m, queue: 1}}
  - {name: jobs, match: {path: /jobs}, key: global, limit: {algorithm: concurrency, max: 1, ttl: 1h}}
`, nil)
	const queued, job = `{"path": "/q", "client_ip": "192.0.2.1"}`, `{"path": "/jobs"}`
	began := time.Now()
	got := s.batch("/v1/check", queued, queued, job, job, `{"path": "/q", "client_ip": "192.0.2.2"}`, `{"path": "/q", "client_ip": "192.0.2.2", "max_wait_ms": 0}`)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the batch took %v", took)
	}
	for i, want := range []struct {
		allowed, delayed bool
	}{{true, false}, {true, true}, {true, false}, {true, false}, {true, false}, {false, false}} {
		if d := got.Answers[i].Decision; d == nil || d.Allowed != want.allowed || d.DelayMS > 0 != want.delayed {
			t.Errorf("request %d: %+v, want %+v", i, d, want)
		}
	}
}

// The bodies of answers are bounded in all.
func TestTheAnswersOfABatchAreBounded(t *testing.T) {
	s := serve(t, `rules: [{name: all, key: global, always: true, when_limited: {body: '`+strings.Repeat("x", 40<<10)+`'}}]`, nil)
	got, bodies := s.batch("/v1/check", strings.Split(strings.Repeat("{} ", mostQuestions-1)+"{}", " ")...), 0
	for i, a := range got.Answers {
		bodies += len(a.Decision.Answer.Body)
		if len(a.Decision.Answer.Body)+a.Decision.Answer.BodyBytes < 40<<10 {
			t.Fatalf("answer %d has neither a body nor its size", i)
		}
	}
	if bodies > mostAnswerBodies || bodies < mostAnswerBodies/2 {
		t.Errorf("%d bytes of bodies", bodies)
	}
}

// leaving is a store whose caller leaves at a request.
type leaving struct {
	sluice.Store
	at      int
	leave   context.CancelFunc
	decided int
}

func (l *leaving) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if l.decided++; l.decided == l.at {
		l.leave()
	}
	return l.Store.Decide(ctx, r)
}

// What is left of a batch is not decided after its caller has left.
func TestABatchEndsWithItsCaller(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	store := &leaving{at: 300, leave: leave}
	s := serve(t, perClient, func(o *Options) {
		store.Store = o.Decider.Store()
		o.Decider = deciding(t, o.Decider.Policy(), store)
	})
	requests := make([]string, mostQuestions)
	for i := range requests {
		requests[i] = fmt.Sprintf(`{"client_ip": "192.0.%d.%d"}`, i/256, i%256)
	}
	body := strings.NewReader(`{"requests": [` + strings.Join(requests, ",") + `]}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/check", body)
	if err != nil {
		t.Fatal(err)
	}
	s.api.ServeHTTP(gateway.NewAnswer(), r)
	if store.decided != store.at {
		t.Errorf("%d requests were decided, want %d", store.decided, store.at)
	}
}
