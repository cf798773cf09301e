package describe

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// scripted is a store that decides by a function.
type scripted struct {
	sluice.Store
	decide func(r *sluice.Request) (sluice.Decision, error)
}

func (s scripted) Decide(_ context.Context, r sluice.Request) (sluice.Decision, error) {
	return s.decide(&r)
}

func (s scripted) DecideAll(_ context.Context, rs []sluice.Request, out []sluice.Decision) (err error) {
	for i := range rs {
		if out[i], err = s.decide(&rs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (scripted) Cancel(context.Context, sluice.Charge) error        { return nil }
func (scripted) Settle(context.Context, sluice.Charge, int64) error { return nil }

// denying returns a store that denies one limit, and has 5 of 10 units left of the others.
func denying(limit string) scripted {
	return scripted{decide: func(r *sluice.Request) (sluice.Decision, error) {
		if r.Limit.Name() == limit {
			return sluice.Decision{Limit: 10, Reason: sluice.ReasonLimited, RetryAfter: time.Second}, nil
		}
		return sluice.Decision{Allowed: true, Limit: 10, Remaining: 5}, nil
	}}
}

// requestHeaders are the headers of a request.
type requestHeaders map[string]string

func (h requestHeaders) Header(name string) (string, bool) { v, ok := h[name]; return v, ok }
func (requestHeaders) Cookie(string) (string, bool)        { return "", false }
func (requestHeaders) Query(string) (string, bool)         { return "", false }

func perDay(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(n)})}
}

func global(name string, action policy.Action) policy.Rule {
	return policy.Rule{Name: name, Key: []policy.Part{policy.Global()}, Limits: perDay(10), WhenLimited: policy.LimitedAction{Action: action}}
}

func compiled(t *testing.T, o policy.Options) *policy.Policy {
	t.Helper()
	p, err := policy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A verdict is described with the numbers of each limit, and never with a key.
func TestVerdictsAreDescribedWithoutKeys(t *testing.T) {
	shadow, secret := global("a", policy.Deny), global("b", policy.Deny)
	shadow.Shadow, shadow.Floor = true, 3
	secret.Key = []policy.Part{policy.Header("X-Key").IfMissing(policy.MissingDeny)}
	p := compiled(t, policy.Options{Rules: []policy.Rule{shadow, secret}})
	deny := scripted{decide: func(*sluice.Request) (sluice.Decision, error) {
		return sluice.Decision{Limit: 10, Reason: sluice.ReasonLimited, RetryAfter: time.Second}, nil
	}}
	wait := scripted{decide: func(*sluice.Request) (sluice.Decision, error) {
		return sluice.Decision{
			Allowed: true, Limit: 10, Remaining: 2, Delay: time.Second, ResetAfter: time.Minute, Degraded: true, Overflow: true,
		}, nil
	}}
	broken := scripted{decide: func(*sluice.Request) (sluice.Decision, error) { return sluice.Decision{}, errors.New("broken") }}
	key := policy.Attributes{Values: requestHeaders{"X-Key": "hunter2"}}
	for _, c := range []struct {
		store scripted
		a     policy.Attributes
		want  string
	}{
		{deny, key, `deny: rule b: limited, 0 of 10 remain, retry after 1s
  rule a
    may        10 a day, up to 10 at once (token bucket), leaving 3, kept as a
    so         denied: limited; 0 of 10 remain; retry after 1s
    in shadow  decided and counted, but not enforced
    otherwise  refuse with 429
  rule b
    may        10 a day, up to 10 at once (token bucket), kept as b
    so         denied: limited; 0 of 10 remain; retry after 1s
    otherwise  refuse with 429`},
		{wait, key, `allow: the tightest rule is b, decided by a fallback, after a delay of 1s
  rule a
    may        10 a day, up to 10 at once (token bucket), leaving 3, kept as a
    so         allowed; delay 1s; decided by a fallback; in a budget shared by keys that found no room
    in shadow  decided and counted, but not enforced
    otherwise  refuse with 429
  rule b
    may        10 a day, up to 10 at once (token bucket), kept as b
    so         allowed; delay 1s; decided by a fallback; in a budget shared by keys that found no room
    otherwise  refuse with 429`},
		{broken, key, `allow: the store could not decide; on_store_error of rule b is allow
  rule a
    may        10 a day, up to 10 at once (token bucket), leaving 3, kept as a
    so         not decided
    in shadow  decided and counted, but not enforced
    otherwise  refuse with 429
  rule b
    may        10 a day, up to 10 at once (token bucket), kept as b
    so         not decided
    otherwise  refuse with 429`},
		{deny, policy.Attributes{}, `deny: rule b: the key's part header:X-Key is missing`},
	} {
		v := p.Decide(t.Context(), c.store, &c.a)
		got := new(Phrases).Verdict(&v)
		if got != c.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
		}
		if strings.Contains(got, "hunter2") {
			t.Error("the description holds the key")
		}
	}
}

// Classes, overrides, lists, floors, candidates and advisory rules are described too.
func TestVerdictOfEveryRole(t *testing.T) {
	critical := policy.Class{Name: "critical", Match: policy.Match{Methods: []string{"PUT"}}}
	rules := []policy.Rule{global("less", policy.Degrade), global("mark", policy.Mark), global("hard", policy.Deny), global("lists", policy.Deny)}
	rules[0].Overrides = []policy.Override{{Limits: perDay(20)}}
	rules[1].Cost.Source = policy.CostResponseBytes
	rules[2].Reserved = []policy.Reserve{{Share: 20, For: []string{"critical"}}}
	rules[2].Candidate = perDay(5)
	rules[3].AllowIPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	always := policy.Rule{Name: "always", Always: true, Shadow: true, Match: policy.Match{Methods: []string{"PUT"}}}
	p := compiled(t, policy.Options{Rules: append(rules, always), Classes: []policy.Class{critical}})
	a := policy.Attributes{ClientIP: netip.MustParseAddr("192.0.2.1")}
	put := a
	put.Method = "PUT"
	for _, c := range []struct {
		denied string
		a      policy.Attributes
		want   string
	}{
		{"less", put, `degrade: rule less, 5 of 10 remain
  class critical
  rule less
    may        20 a day, up to 20 at once (token bucket), by an override, kept as less
    so         denied: limited; 0 of 10 remain; retry after 1s
    otherwise  pass, degraded, with header Sluice-Degraded
  rule mark
    may        10 a day, up to 10 at once (token bucket), to be settled, kept as mark
    so         allowed; 5 of 10 remain
    otherwise  pass, marked by header Sluice-Marked
  rule hard
    may        10 a day, up to 10 at once (token bucket), kept as hard
    so         allowed; 5 of 10 remain
    tries      5 a day, up to 5 at once (token bucket), kept as hard/candidate/1
    so         allowed; 5 of 10 remain
    otherwise  refuse with 429
  rule lists
    listed     on the allow list; no limit applies
    otherwise  refuse with 429
  rule always
    limits     every request, always
    in shadow  decided and counted, but not enforced
    otherwise  refuse with 429`},
		{"hard", a, `deny: rule hard: limited, 0 of 10 remain, retry after 1s
  rule less
    may        20 a day, up to 20 at once (token bucket), by an override, kept as less
    so         allowed; 5 of 10 remain; given back
    otherwise  pass, degraded, with header Sluice-Degraded
  rule mark
    may        10 a day, up to 10 at once (token bucket), to be settled, kept as mark
    so         allowed; 5 of 10 remain; given back
    otherwise  pass, marked by header Sluice-Marked
  rule hard
    may        10 a day, up to 10 at once (token bucket), leaving 2, kept as hard
    so         denied: limited; 0 of 10 remain; retry after 1s
    tries      5 a day, up to 5 at once (token bucket), leaving 1, kept as hard/candidate/1
    so         allowed; 5 of 10 remain
    otherwise  refuse with 429
  rule lists
    listed     on the allow list; no limit applies
    otherwise  refuse with 429`},
	} {
		v := p.Decide(t.Context(), denying(c.denied), &c.a)
		if got := new(Phrases).Verdict(&v); got != c.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
		}
	}
}
