package policy_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// TestBanByHand bans keys by the values of a rule's key, lists the bans by these values, and lifts them.
func TestBanByHand(t *testing.T) {
	one := func() *sluice.Limit { return sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100)}) }
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{
		{
			Name: "a", Key: []policy.Part{policy.Constant("x"), policy.ClientIP(), policy.Header("X-User")},
			Limits: []*sluice.Limit{one(), one()}, Ban: &sluice.Ban{},
		},
		{Name: "plain", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{one()}},
	}})
	store := mustMemory(t)
	ctx := t.Context()
	request := &policy.Attributes{ClientIP: netip.MustParseAddr("2001:db8::7"), Values: values{header: map[string]string{"X-User": "ann"}}}
	if v := p.Decide(ctx, store, request); !v.Allowed() {
		t.Fatalf("before: %s", v.String())
	}
	if err := p.Ban(ctx, store, time.Hour, "a", "2001:db8::1", "ann"); err != nil {
		t.Fatal(err)
	}
	if v := p.Decide(ctx, store, request); v.Allowed() || v.Reason != sluice.ReasonBanned || v.RetryAfter() <= 59*time.Minute {
		t.Errorf("banned: %s", v.String())
	}
	// A request without a user has another key.
	if err := p.Ban(ctx, store, time.Hour, "a", "192.0.2.1", ""); err != nil {
		t.Fatal(err)
	}
	bans, next, err := p.ListBans(ctx, store, sluice.BanQuery{})
	if err != nil || next != "" || len(bans) != 2 {
		t.Fatalf("bans listed: %+v, next %q, %v; want two, on one page", bans, next, err)
	}
	var listed [][]string
	for _, b := range bans {
		if b.Rule != "a" || !b.ByHand {
			t.Errorf("listed %+v", b)
		}
		listed = append(listed, b.Values)
		if found, err := p.LiftBan(ctx, store, b.Rule, b.Values...); err != nil || !found {
			t.Errorf("lifting %q: %t, %v", b.Values, found, err)
		}
	}
	slices.SortFunc(listed, slices.Compare[[]string])
	if want := [][]string{{"192.0.2.1", ""}, {"2001:db8::/64", "ann"}}; !slices.EqualFunc(listed, want, slices.Equal[[]string]) {
		t.Errorf("listed %q, want %q", listed, want)
	}
	if v := p.Decide(ctx, store, request); !v.Allowed() {
		t.Errorf("lifted: %s", v.String())
	}
	if found, err := p.LiftBan(ctx, store, "a", "192.0.2.1", ""); err != nil || found {
		t.Errorf("lifting a ban that does not exist: %t, %v", found, err)
	}

	for _, x := range []struct {
		rule    string
		key     []string
		unknown bool
	}{{rule: "none", unknown: true}, {rule: "a"}, {rule: "plain"}, {rule: "a", key: []string{"x", "y"}}} {
		var bad *policy.RuleRequestError
		err := p.Ban(ctx, store, time.Hour, x.rule, x.key...)
		_, liftErr := p.LiftBan(ctx, store, x.rule, x.key...)
		if !errors.As(err, &bad) || bad.Unknown != x.unknown || !errors.As(liftErr, &bad) {
			t.Errorf("%+v: ban returned %v, lift returned %v; want errors about the rule or its key", x, err, liftErr)
		}
	}
	other := &stub{}
	_, _, err = p.ListBans(ctx, other, sluice.BanQuery{})
	if err := p.Ban(ctx, other, time.Hour, "a", "192.0.2.1", "x"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store without bans: %v", err)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store that cannot list bans: %v", err)
	}
}

// TestBansOfRulesThatAreGone lists the bans of removed rules, with their keys as stored.
func TestBansOfRulesThatAreGone(t *testing.T) {
	store := mustMemory(t)
	l := sluice.MustLimit("gone/2", sluice.TokenBucket{Rate: sluice.PerMinute(100)})
	if err := store.(sluice.Banner).BanKey(t.Context(), l, sluice.NewKey("x", "y"), time.Hour); err != nil {
		t.Fatal(err)
	}
	bans, _, err := mustPolicy(t, policy.Options{}).ListBans(t.Context(), store, sluice.BanQuery{})
	if err != nil || len(bans) != 1 || bans[0].Rule != "gone" || bans[0].Limit != "gone/2" || !slices.Equal(bans[0].Values, []string{"x", "y"}) {
		t.Errorf("bans of a rule that is gone: %+v, %v; want its name and its key as stored", bans, err)
	}
}
