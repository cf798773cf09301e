package httplimit_test

import (
	"net/http"
	"runtime"
	"slices"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// One policy applies to a request, also if another one comes in force while the request is decided: no forged mark passes by then.
func TestOnePolicyAppliesToARequest(t *testing.T) {
	clock := int64(1e6)
	key := []policy.Part{policy.Global()}
	marks, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "slow", Key: key, Limits: hourly(1), WhenLimited: policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Slow": "{rule}"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	none, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "other", Key: key, Limits: hourly(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	var d *httplimit.Decider
	d, err = httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: marks, Store: storeAt(t, &clock), Cost: func(*http.Request) int64 {
		if err := d.SetPolicy(none); err != nil {
			t.Error(err)
		}
		return 1
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := served(t, wrap(t, d, httplimit.Options{}, http.HandlerFunc(full)))
	for i, want := range []string{"full[]", "full[X-Slow=slow]"} {
		if err := d.SetPolicy(marks); err != nil {
			t.Error(err)
		}
		r := get("/")
		r.Header = http.Header{"X-Slow": {"forged"}}
		if got := send(t, s, r); got.body != want {
			t.Errorf("request %d: %s, want %s", i, got.body, want)
		}
	}
	if err := d.SetPolicy(marks); err != nil {
		t.Error(err)
	}
	r, v := d.DecideReport(t.Context(), reported("/", "X-Slow: forged"))
	set, remove := d.PassedHeaders(r, &v)
	if v.Policy() != marks || set.Get("X-Slow") != "slow" || !slices.Equal(remove, []string{"X-Slow"}) {
		t.Errorf("a report: sets %v, removes %q", set, remove)
	}
}

// A decider keeps no policy that was replaced: its overrides may take much memory.
func TestReplacedPoliciesAreForgotten(t *testing.T) {
	rules := func(n int64) *policy.Policy {
		p, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "r", Key: []policy.Part{policy.Global()}, Limits: hourly(n)}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: rules(1), Store: bubbleStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan bool, 1)
	runtime.AddCleanup(d.Policy(), func(gone chan bool) { gone <- true }, gone)
	if err := d.SetPolicy(rules(2)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		runtime.GC()
		select {
		case <-gone:
			if d.Policy() == nil {
				t.Error("the decider has no policy")
			}
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("after 100 collections, the policy that was replaced is still in memory")
}
