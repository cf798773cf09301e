package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// traced is a request of a random trace, and what a service makes of it.
type traced struct {
	after    time.Duration // the beginning of the trace
	duration time.Duration
	client   int
	key      int // of the header X-Key; 0 for none
	method   string
	path     string
	status   int
	sent     int
}

// trace returns random requests in the order of their beginnings.
func trace(random *rand.Rand, n int) []traced {
	all := make([]traced, n)
	span := time.Duration(1+random.IntN(60)) * time.Second
	for i := range all {
		all[i] = traced{
			after:    time.Duration(random.Int64N(int64(span/time.Microsecond))) * time.Microsecond,
			duration: time.Duration(1+random.IntN(1+random.IntN(3_000_000))) * time.Microsecond,
			client:   random.IntN(4), key: random.IntN(4),
			method: []string{"GET", "GET", "POST", "HEAD"}[random.IntN(4)],
			path:   []string{"/", "/login", "/a/b?q=1", "/a//c/../b", "/a%2fb"}[random.IntN(5)],
			status: []int{200, 200, 401, 500}[random.IntN(4)], sent: random.IntN(3000),
		}
	}
	slices.SortFunc(all, func(a, b traced) int { return int(a.after - b.after) })
	return all
}

// randomLimit returns a limit that a trace reaches.
func randomLimit(random *rand.Rand) sluice.Algorithm {
	rate, err := sluice.ParseRate(fmt.Sprintf("%d/%s", 1+random.IntN(20), []string{"s", "10s", "m"}[random.IntN(3)]))
	if err != nil {
		panic(err)
	}
	switch random.IntN(8) {
	case 0:
		return sluice.TokenBucket{Rate: rate, Burst: 1 + random.Int64N(20)}
	case 1:
		return sluice.LeakyBucket{Rate: rate, Queue: random.Int64N(10), Undelayed: 0}
	case 2:
		return sluice.FixedWindow{Rate: rate, Opened: random.IntN(2) == 0}
	case 3:
		return sluice.SlidingWindow{Rate: rate, CountDenied: random.IntN(2) == 0}
	case 4:
		return sluice.SlidingCounter{Rate: rate}
	case 5:
		return sluice.SlidingLog{Rate: rate}
	case 6:
		return sluice.Concurrency{Max: 1 + random.Int64N(3)}
	default:
		return sluice.Concurrency{Max: 1 + random.Int64N(3), Queue: 1 + random.Int64N(5), Latency: time.Second}
	}
}

// randomRules returns a policy with all that a log can have.
func randomRules(random *rand.Rand) policy.Options {
	o := policy.Options{IPv6Prefix: 64}
	for i := range 1 + random.IntN(3) {
		r := policy.Rule{Name: fmt.Sprintf("r%d", i), Key: [][]policy.Part{
			{policy.ClientIP()}, {policy.Header("X-Key")}, {policy.Global()}, {policy.ClientIP(), policy.Method()},
		}[random.IntN(4)]}
		limit := randomLimit(random)
		_, leases := limit.(sluice.Concurrency)
		_, leaky := limit.(sluice.LeakyBucket)
		r.Limits = []*sluice.Limit{sluice.MustLimit("", limit)}
		r.Match.Paths = [][]string{nil, {"/login"}, {"/a/**"}}[random.IntN(3)]
		switch random.IntN(6) {
		case 0:
			r.CountStatus = []policy.StatusRange{policy.Status(401)}
		case 1:
			if !leases && !leaky {
				r.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1000), Burst: 5000})}
				r.Cost = policy.Cost{Source: policy.CostResponseBytes, Estimate: 1 + random.Int64N(2000)}
			}
		case 2:
			if !leases && len(r.Key) == 1 && random.IntN(2) == 0 && r.Key[0].Source == policy.ClientIP().Source {
				r.Ban = &sluice.Ban{After: 3, For: 5 * time.Second}
			}
		case 3:
			r.WhenLimited.Action = []policy.Action{policy.Mark, policy.Degrade}[random.IntN(2)]
		case 4:
			r.Shadow = true
		}
		if r.WhenLimited.Action == policy.Allow && random.IntN(4) == 0 {
			r.MaxWait = time.Duration(1+random.IntN(3000)) * time.Millisecond
		}
		o.Rules = append(o.Rules, r)
	}
	if first := &o.Rules[0]; len(o.Rules) > 1 && first.Key[0].Source == policy.Global().Source {
		o.Rules[1].Match.Pressure, o.Rules[1].Match.PressureOf = 0.2+random.Float64(), first.Name
	}
	return o
}

// live handles a trace by a middleware, and returns the actions.
func live(t *testing.T, o policy.Options, requests []traced) []string {
	actions := make([]string, len(requests))
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return time.Now().UnixMicro() }})
		if err != nil {
			t.Fatal(err)
		}
		g, err := gate.New(store, gate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Pressure = g.Pressure
		p, err := policy.New(o)
		if err != nil {
			t.Fatal(err)
		}
		decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		limit, err := httplimit.New(decider, httplimit.Options{Gate: g, OnVerdict: func(r *http.Request, v *policy.Verdict, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			actions[r.Context().Value(number{}).(int)] = v.Action.String()
		}})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i, q := range requests {
			all.Go(func() {
				<-time.After(q.after)
				r := httptest.NewRequest(q.method, "http://a.example"+q.path, http.NoBody).WithContext(context.WithValue(t.Context(), number{}, i))
				r.RemoteAddr = q.addr() + ":1"
				if q.key > 0 {
					r.Header.Set("X-Key", fmt.Sprint(q.key))
				}
				limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					<-time.After(q.duration)
					w.WriteHeader(q.status)
					_, _ = w.Write(make([]byte, q.sent))
				})).ServeHTTP(httptest.NewRecorder(), r)
			})
		}
		all.Wait()
	})
	return actions
}

type number struct{}

func (q *traced) addr() string { return netip.AddrFrom4([4]byte{192, 0, 2, byte(q.client)}).String() }

// traceFormat has all that random rules read, with microseconds.
const traceFormat = `nginx:$msec $remote_addr "$request_method $host $request_uri" $status $body_bytes_sent $request_time "$http_x_key"`

// logOf writes the log of a trace in the order in which the requests ended.
func logOf(t *testing.T, requests []traced, start time.Time) (name string, lines []int) {
	t.Helper()
	for i := range requests {
		lines = append(lines, i)
	}
	end := func(i int) time.Duration { return requests[i].after + requests[i].duration }
	slices.SortStableFunc(lines, func(a, b int) int { return int(end(a) - end(b)) })
	var b strings.Builder
	for _, i := range lines {
		q := &requests[i]
		at, key := start.Add(end(i)), "-"
		if q.key > 0 {
			key = fmt.Sprint(q.key)
		}
		fmt.Fprintf(&b, "%d.%06d %s \"%s a.example %s\" %d %d %.6f \"%s\"\n", at.Unix(), at.Nanosecond()/1000, q.addr(), q.method, q.path, q.status, q.sent, q.duration.Seconds(), key)
	}
	name = filepath.Join(t.TempDir(), "trace.log")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name, lines
}

// A replay decides as a live middleware does: about waits, leases, costs by the response, bans, marks, shadows and pressure too.
func TestReplayEqualsALiveRun(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 1))
	limited, waits := 0, 0
	for round := range 300 {
		requests, o := trace(random, 5+random.IntN(150)), randomRules(random)
		want := live(t, o, requests)
		name, lines := logOf(t, requests, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		got := make([]string, len(requests))
		report, err := Run(t.Context(), Options{
			Policy: &Policy{Name: "p", Options: o, IPv6Prefix: 64}, Logs: logs.Options{Files: []string{name}, Format: traceFormat}, Names: plain,
			seen: func(rec *logs.Record, out *outcome) {
				got[lines[rec.Line-1]] = out.action()
				if out.kind == delayed {
					waits++
				}
			},
		})
		if err != nil || len(report.Unevaluated) > 0 || report.Log.Bad > 0 {
			t.Fatal(report, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("round %d, request %d of %d, %+v: the replay has %s, the live run %s; rules %+v", round, i, len(want), requests[i], got[i], want[i], o.Rules)
			}
			limited += int(bit(want[i] == "deny"))
		}
	}
	if limited < 1000 || waits < 100 {
		t.Errorf("%d requests are denied and %d wait, which is too few to learn from", limited, waits)
	}
}
