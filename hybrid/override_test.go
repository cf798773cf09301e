package hybrid_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/internal/granttest"
	"github.com/sluicehq/sluice/policy"
)

// tenant is the header of a request.
type tenant string

func (t tenant) Header(string) (string, bool) { return string(t), true }
func (tenant) Cookie(string) (string, bool)   { return "", false }
func (tenant) Query(string) (string, bool)    { return "", false }

// Two processes share the hybrid limit of a tenant, whose override changes while they hold units of it. They admit what the numbers in
// force give, soon after each change, and give back what they hold beyond these numbers. A denial by override counts at once.
func TestHybridLimitsFollowOverrides(t *testing.T) {
	limits := func(perSecond int64) []*sluice.Limit {
		l, err := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(perSecond)}).WithHybrid(sluice.Hybrid{})
		if err != nil {
			t.Fatal(err)
		}
		return []*sluice.Limit{l}
	}
	const ruled = 1000
	synctest.Test(t, func(t *testing.T) {
		server := granttest.New(granttest.Options{Clock: func() int64 { return time.Now().UnixMicro() }})
		var processes []*hybrid.Store
		for i := range uint64(2) {
			s, err := hybrid.New(server, hybrid.Options{Holder: i + 1, Seed: i + 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			processes = append(processes, s)
		}
		table := policy.NewOverrideTable()
		p, err := policy.New(policy.Options{
			Rules:     []policy.Rule{{Name: "r", Key: []policy.Part{policy.Header("X-Tenant")}, Limits: limits(ruled)}},
			Overrides: table,
			Terms: func(_, text string) (terms policy.Terms, err error) {
				if text == "deny" {
					terms.List = policy.ListDeny
					return terms, nil
				}
				n, err := strconv.ParseInt(text, 10, 64)
				if err == nil {
					terms.Limits = limits(n)
				}
				return terms, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		// demand makes 2,000 requests a second for a time, and returns how many were admitted.
		demand := func(d time.Duration) (admitted int64) {
			for end := time.Now().Add(d); time.Now().Before(end); <-time.After(time.Millisecond) {
				for _, s := range processes {
					v := p.Decide(t.Context(), s, &policy.Attributes{Path: "/", Values: tenant("acme")})
					if v.Allowed() {
						admitted++
					}
				}
			}
			return admitted
		}
		held := func(l *sluice.Limit) (units int64) {
			for _, h := range server.Escrow(l, sluice.StringKey("acme")).Holders {
				units += h.Units
			}
			return units
		}
		for _, step := range []struct {
			text      string
			perSecond int64
		}{{"", ruled}, {"100", 100}, {"300", 300}, {"deny", 0}, {"50", 50}, {"", ruled}} {
			if step.text == "" {
				table.Remove("r", sluice.StringKey("acme"))
			} else if err := table.Set("r", sluice.StringKey("acme"), step.text, time.Time{}); err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("with the override %q", step.text)
			first := demand(2 * time.Second)
			if step.perSecond == 0 && first > 0 {
				t.Errorf("%s, %d are admitted", what, first)
			}
			// What is admitted before the change stays, so a bucket may begin empty or with a debt.
			if most := step.perSecond * 3; first > most {
				t.Errorf("%s, %d are admitted in the first 2 s, want %d at most", what, first, most)
			}
			const long = 5
			got := demand(long * time.Second)
			if most, least := step.perSecond*(long+1), step.perSecond*long*8/10; got > most || got < least {
				t.Errorf("%s, %d are admitted in %d s, want %d to %d", what, got, long, least, most)
			}
			l := p.LimitsFor(&policy.Attributes{Path: "/", Values: tenant("acme")})[0].Request.Limit
			if units := held(l); step.perSecond > 0 && units > l.Capacity() {
				t.Errorf("%s, the processes hold %d units of a limit of %d", what, units, l.Capacity())
			}
		}
		<-time.After(10 * time.Second)
		if units := held(p.Rule("r").Limits[0]); units > ruled/10 {
			t.Errorf("after 10 s without requests, the processes still hold %d units", units)
		}
	})
}
