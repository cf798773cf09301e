package replay

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
)

// interrupting is a store that lets others run before and after a decision, as a busy machine does.
type interrupting struct {
	sluice.Store
	interrupt func()
}

func (s *interrupting) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	defer s.interrupt()
	s.interrupt()
	return s.Store.Decide(ctx, r)
}

func (s *interrupting) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	defer s.interrupt()
	s.interrupt()
	return s.Store.DecideAll(ctx, rs, out)
}

// interrupted handles a trace by a middleware on a busy machine, and returns its access log.
func interrupted(t *testing.T, random *rand.Rand, o policy.Options, requests []traced) string {
	log := &bytes.Buffer{}
	synctest.Test(t, func(t *testing.T) {
		seed := random.Uint64()
		interrupt := func() {
			now := rand.New(rand.NewPCG(seed, uint64(time.Now().UnixMicro()))) // goroutines run in any order
			if now.IntN(8) == 0 {
				<-time.After(time.Duration(now.IntN(200_000)) * time.Microsecond)
			}
		}
		store, err := memory.New(memory.Options{Clock: func() int64 { return time.Now().UnixMicro() }})
		if err != nil {
			t.Fatal(err)
		}
		slow := &interrupting{store, interrupt}
		g, err := gate.New(slow, gate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Pressure = func(rule string) float64 {
			defer interrupt()
			return g.Pressure(rule)
		}
		p, err := policy.New(o)
		if err != nil {
			t.Fatal(err)
		}
		decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: slow})
		if err != nil {
			t.Fatal(err)
		}
		lines := accesslog.New(accesslog.Options{
			Out: log, Sample: 1, Fingerprint: func(sluice.Key) string { return "f00d" }, Failed: func(err error) { t.Errorf("a line is lost: %v", err) },
			ClientIP: func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() },
		})
		defer lines.Close()
		limit, err := httplimit.New(decider, httplimit.Options{Gate: g, OnVerdict: func(r *http.Request, v *policy.Verdict, took time.Duration) {
			lines.Observe("proxy", r, v, took)
		}})
		if err != nil {
			t.Fatal(err)
		}
		handler := limit.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		var all sync.WaitGroup
		for _, q := range requests {
			all.Go(func() {
				<-time.After(q.after)
				r := httptest.NewRequest(q.method, "http://a.example"+q.path, http.NoBody)
				r.RemoteAddr = q.addr() + ":1"
				handler.ServeHTTP(httptest.NewRecorder(), r)
			})
		}
		all.Wait()
	})
	return log.String()
}

// immediate are random rules about which a server's own log has everything.
func immediate(random *rand.Rand) policy.Options {
	o := randomRules(random)
	for i := range o.Rules {
		r := &o.Rules[i]
		r.MaxWait, r.CountStatus, r.Cost, r.Ban = 0, nil, policy.Cost{}, nil
		if slices.ContainsFunc(r.Key, func(part policy.Part) bool { return part.Source == policy.FromHeader }) {
			r.Key = []policy.Part{policy.Global()}
		}
		switch a := r.Limits[0].Algorithm().(type) {
		case sluice.Concurrency, sluice.LeakyBucket:
			r.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerMinute(20)})}
		case sluice.SlidingWindow:
			a.CountDenied = false
			r.Limits = []*sluice.Limit{sluice.MustLimit("", a)}
		}
	}
	return o
}

// The log of a server on a busy machine has the verdicts of a replay: a line can be far behind its decision, and other requests
// can be decided and counted meanwhile.
func TestInterruptedDecisionsAreFollowed(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 4))
	within := int64(0)
	for round := range 150 {
		requests, o := trace(random, 20+random.IntN(200)), immediate(random)
		name := filepath.Join(t.TempDir(), "access.log")
		text := interrupted(t, random, o, requests)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Run(t.Context(), Options{
			Policy: &Policy{Name: "p", Options: o, IPv6Prefix: 64}, Logs: logs.Options{Files: []string{name}, Format: "sluice"}, Names: plain, Check: true,
		})
		if err != nil || len(report.Unevaluated) > 0 || report.Log.Bad > 0 || report.Check.Compared != int64(len(requests)) {
			t.Fatalf("round %d: the log was not read: %+v, %v", round, report, err)
		}
		if c := report.Check; c.Agreed != c.Compared {
			t.Errorf("round %d: %d of %d verdicts agree: %+v; rules %+v", round, c.Agreed, c.Compared, c.Examples, o.Rules)
		}
		within += report.Check.Within
	}
	if within == 0 {
		t.Error("each verdict follows from the time and the order of its line, so that there is nothing to learn")
	}
}
