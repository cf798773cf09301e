package grpclimit_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// What gRPC cannot express is an error that names the rule, when a server or client is made.
func TestInexpressibleRules(t *testing.T) {
	key, limits := []policy.Part{policy.Global()}, []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1)})}
	const (
		server = 1 << iota
		client
		messages
		all = server | client | messages
	)
	for _, c := range []struct {
		text  string
		where int
		rule  policy.Rule
	}{
		{"", 0, policy.Rule{Key: key, Limits: limits}},
		{"Bandwidth", all, policy.Rule{Key: key, Bandwidth: &policy.Bandwidth{Down: sluice.PerSecond(1000)}}},
		{"Upstream", all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Action: policy.Degrade, Upstream: "http://b"}}},
		{"has an answer", all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Action: policy.Degrade, Body: "b"}}},
		{"File", all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{File: "b"}}},
		{"ContentType", all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Body: "b", ContentType: "text/html"}}},
		{"Status 418", all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Status: 418}}},
		{`sets "Grpc-Status"`, all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Header: map[string]string{"Grpc-Status": "0"}}}},
		{`sets "X-Bin"`, all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Bin": "0"}}}},
		{`sets "X!"`, all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Header: map[string]string{"X!": "0"}}}},
		{`sets "X-Text" to a value`, all, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Header: map[string]string{"X-Text": "ä"}}}},
		{"WhenLimited.Header is given", client | messages, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Header: map[string]string{"X-Text": "a"}}}},
		{"Methods [GET]", all, policy.Rule{Key: key, Limits: limits, Match: policy.Match{Methods: []string{"GET"}}}},
		{"Methods [PUT]", all, policy.Rule{Key: key, Limits: limits, Match: policy.Match{Unless: []policy.Match{{Methods: []string{"PUT"}}}}}},
		{`Paths "/login"`, all, policy.Rule{Key: key, Limits: limits, Match: policy.Match{Paths: []string{"/login"}}}},
		{"Match.Descriptor", all, policy.Rule{Key: key, Limits: limits, Match: policy.Match{Descriptor: &descriptors.Pattern{Domain: "d", Entries: []descriptors.PatternEntry{{Key: "a"}}}}}},
		{`cookie "a"`, all, policy.Rule{Key: []policy.Part{policy.Cookie("a")}, Limits: limits}},
		{`parameter "a"`, all, policy.Rule{Key: []policy.Part{policy.Template("{query:a}")}, Limits: limits}},
		{"HTTP method", all, policy.Rule{Key: []policy.Part{policy.Method()}, Limits: limits}},
		{"request_bytes", all, policy.Rule{Key: key, Limits: limits, Cost: policy.Cost{Source: policy.CostRequestBytes}}},
		{"response_header", client | messages, policy.Rule{Key: key, Limits: limits, Cost: policy.Cost{Source: policy.CostResponseHeader, Header: "A"}}},
		{"CountStatus 302 to 308", all, policy.Rule{Key: key, Limits: limits, CountStatus: []policy.StatusRange{{From: 302, To: 308}}}},
		{"CountStatus", messages, policy.Rule{Key: key, Limits: limits, CountStatus: []policy.StatusRange{{From: 400, To: 499}}}},
		{"WhenLimited.Action is mark", client | messages, policy.Rule{Key: key, Limits: limits, WhenLimited: policy.LimitedAction{Action: policy.Mark}}},
		{"calls in progress", messages, policy.Rule{Key: key, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 1})}}},
		{"client_ip", client, policy.Rule{Key: []policy.Part{policy.ClientIP()}, Limits: limits}},
		{"host", client, policy.Rule{Key: []policy.Part{policy.Host()}, Limits: limits}},
		{"Match.Hosts", client, policy.Rule{Key: key, Limits: limits, Match: policy.Match{Hosts: []string{"a"}}}},
		{"Match.ClientIPs", client, policy.Rule{Key: key, Limits: limits, Match: policy.Match{ClientIPs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}},
		{"Match.Marked", client, policy.Rule{Key: key, Limits: limits, Match: policy.Match{Marked: new(bool)}}},
		{"AllowIPs", client, policy.Rule{Key: key, Limits: limits, AllowIPs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
	} {
		c.rule.Name = "odd"
		d := func() *grpclimit.Decider { return ruled(c.rule) }
		errs := map[int]error{}
		_, errs[server] = grpclimit.NewServer(d(), grpclimit.ServerOptions{})
		_, errs[client] = grpclimit.NewClient(d(), grpclimit.ClientOptions{})
		_, errs[messages] = grpclimit.NewServer(unlimited(), grpclimit.ServerOptions{Received: d()})
		for where, err := range errs {
			switch {
			case (err != nil) != (c.where&where != 0):
				t.Errorf("%q at %d: %v", c.text, where, err)
			case err != nil && (!strings.HasPrefix(err.Error(), "grpclimit: ") || !strings.Contains(err.Error(), `: rule "odd": `) || !strings.Contains(err.Error(), c.text)):
				t.Errorf("%q at %d: %v", c.text, where, err)
			}
		}
	}
	if _, err := grpclimit.NewServer(unlimited(), grpclimit.ServerOptions{Sent: ruled(policy.Rule{Name: "r", Key: key, Bandwidth: &policy.Bandwidth{Up: sluice.PerSecond(9000)}})}); err == nil || !strings.HasPrefix(err.Error(), "grpclimit: ServerOptions.Sent: ") {
		t.Error(err)
	}
}

// A policy that cannot be carried out does not replace another one.
func TestBadPoliciesReplaceNothing(t *testing.T) {
	d := ruled(policy.Rule{Name: "a", Key: []policy.Part{policy.ClientIP()}, Limits: []*sluice.Limit{perDay(1)}})
	before := d.Policy()
	if _, err := grpclimit.NewServer(d, grpclimit.ServerOptions{}); err != nil {
		t.Fatal(err)
	}
	class := must(policy.New(policy.Options{Classes: []policy.Class{{Name: "c", Match: policy.Match{Queries: []policy.ValueMatch{{Name: "q"}}}}}}))
	if err := d.SetPolicy(class); err == nil || err.Error() != `grpclimit: SetPolicy: a class reads the parameter "q" of a query, and calls have none; read a metadata key, as a header` || d.Policy() != before {
		t.Error(err)
	}
	if err := d.SetPolicy(nil); err == nil || !strings.HasPrefix(err.Error(), "grpclimit: ") || d.Policy() != before {
		t.Errorf("SetPolicy(nil): %v", err)
	}
	if err := d.SetPolicy(must(policy.New(policy.Options{}))); err != nil || d.Policy() == before {
		t.Error(err)
	}
	// A client cannot carry out the policy of this server, and a failed use leaves no mark.
	if err := d.SetPolicy(before); err != nil {
		t.Fatal(err)
	}
	if _, err := grpclimit.NewClient(d, grpclimit.ClientOptions{}); err == nil {
		t.Error("a client reads addresses")
	}
	if err := d.SetPolicy(before); err != nil {
		t.Error(err)
	}
}

// Options that are missing or invalid are errors, which name the option.
func TestDeciderErrorsNameTheOption(t *testing.T) {
	store, limits, key := must(memory.New(memory.Options{})), []*sluice.Limit{perDay(1)}, []policy.Part{policy.Constant("all")}
	for text, o := range map[string]grpclimit.KeyOptions{
		"KeyOptions.Store":        {Limits: limits, Key: key},
		"KeyOptions.Limits":       {Store: store, Key: key},
		"Limits[0] is nil":        {Store: store, Limits: []*sluice.Limit{nil}, Key: key},
		"the name of another":     {Store: store, Limits: []*sluice.Limit{limits[0], limits[0]}, Key: key},
		"KeyOptions.Key":          {Store: store, Limits: limits},
		"MaxWait":                 {Store: store, Limits: limits, Key: key, MaxWait: -2},
		"bans all clients":        {Store: store, Limits: limits, Key: key, Ban: &sluice.Ban{After: 1, Within: time.Hour, For: time.Hour}},
		"KeyOptions.OnStoreError": {Store: store, Limits: limits, Key: key, OnStoreError: sluice.FallbackLocal},
	} {
		if _, err := grpclimit.NewKeyDecider(o); err == nil || !strings.HasPrefix(err.Error(), "grpclimit: ") || !strings.Contains(err.Error(), text) {
			t.Errorf("want an error with %q, got %v", text, err)
		}
	}
	p := must(policy.New(policy.Options{}))
	for text, o := range map[string]grpclimit.PolicyOptions{
		"PolicyOptions.Store":   {Policy: p},
		"PolicyOptions.Policy":  {Store: store},
		"PolicyOptions.MaxWait": {Policy: p, Store: store, MaxWait: -time.Second},
	} {
		if _, err := grpclimit.NewPolicyDecider(o); err == nil || !strings.Contains(err.Error(), "grpclimit: "+text) {
			t.Errorf("want an error with %q, got %v", text, err)
		}
	}
	if d := keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}); d.Store() == nil || len(d.Policy().Rules()) != 1 {
		t.Error("a decider has no store or no rule")
	}
}
