package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
)

// unreliable is a store that fails after the first two decisions.
type unreliable struct {
	sluice.Store
	decisions int
}

var errStore = errors.New("no store")

func (u *unreliable) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if u.decisions++; u.decisions > 2 {
		return sluice.Decision{}, errStore
	}
	return u.Store.Decide(ctx, r)
}

// deciding returns the required options: one request is allowed, one is denied with a file that cannot be read, and
// then the store fails.
func deciding(t *testing.T) gateway.Options {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	page := filepath.Join(t.TempDir(), "page.html")
	must(os.WriteFile(page, []byte("full"), 0o600))
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "one", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1)})},
		WhenLimited: policy.LimitedAction{File: page},
	}}})
	must(err)
	store, err := memory.New(memory.Options{})
	must(err)
	t.Cleanup(func() { _ = store.Close() })
	failing := &unreliable{Store: store}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: failing})
	must(err)
	must(os.Remove(page))
	g, err := gate.New(failing, gate.Options{})
	must(err)
	return gateway.Options{Decider: d, Gate: g}
}

// What happens is reported to the functions of the options, once each. Without the functions, the answers are the same.
func TestOptionalFunctions(t *testing.T) {
	var events []string
	all := deciding(t)
	all.OnVerdict = func(v *policy.Verdict, _ time.Duration) { events = append(events, v.Action.String()) }
	all.OnError = func(err error) { events = append(events, fmt.Sprint(errors.Is(err, errStore))) }
	all.AnswerFailed = func(err error) { events = append(events, fmt.Sprint(errors.Is(err, fs.ErrNotExist))) }
	all.Unusable = func(reason string) { events = append(events, reason) }
	for name, o := range map[string]gateway.Options{"all": all, "none": deciding(t)} {
		d, err := gateway.New(o)
		if err != nil {
			t.Fatal(err)
		}
		var statuses []int
		for range 3 {
			_, v, denied := d.Admit(t.Context(), &httplimit.Report{Method: "GET", Target: "/", Host: "a.example"}, nil)
			answer := gateway.NewAnswer()
			if d.SetLimits(answer.Header(), v); denied {
				d.WriteDenied(answer, v)
			}
			statuses = append(statuses, answer.Status)
			if limits := answer.Header().Get("RateLimit"); (limits != "") != (v.Err == nil) {
				t.Errorf("%s: the header RateLimit is %q", name, limits)
			}
		}
		d.Unusable("no message")
		if !slices.Equal(statuses, []int{http.StatusOK, http.StatusTooManyRequests, http.StatusOK}) {
			t.Errorf("%s: the answers are %v", name, statuses)
		}
	}
	if want := []string{"allow", "deny", "true", "allow", "true", "no message"}; !slices.Equal(events, want) {
		t.Errorf("reported are %q, want %q", events, want)
	}
}

// Without a decider or a gate there is an error.
func TestDeciderAndGateAreRequired(t *testing.T) {
	all := deciding(t)
	for _, o := range []gateway.Options{{}, {Decider: all.Decider}, {Gate: all.Gate}} {
		if _, err := gateway.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
