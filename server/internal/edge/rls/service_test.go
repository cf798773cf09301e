package rls

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// TestGatewaysGetEachField compares answers with what a gateway must get, field by field.
func TestGatewaysGetEachField(t *testing.T) {
	labeled := rule("labeled", "labeled", window(10, time.Hour))
	labeled.Match.Descriptor.Label = "per-hour"
	unlimited := rule("unlimited", "unlimited")
	unlimited.Unlimited = true
	shadow := rule("shadow", "shadow", window(1, time.Minute))
	shadow.Shadow = true
	quotaA, quotaB := rule("quota-a", "qa", window(1, time.Minute)), rule("quota-b", "qb", window(2, time.Minute))
	quotaA.Match.Descriptor.Quota, quotaB.Match.Descriptor.Quota = true, true
	rules := []policy.Rule{
		listed(), rule("minute", "user", window(5, time.Minute)), rule("tens", "tens", window(100, 10*time.Minute)), labeled, unlimited, shadow,
		quotaA, quotaB, rule("bucket", "bucket", sluice.TokenBucket{Rate: sluice.PerSecond(2), Burst: 10}),
	}
	const limit5 = `"currentLimit":{"requestsPerUnit":5,"unit":"MINUTE"}`
	ok := func(more string) string { return `{"code":"OK"` + more + `}` }
	over := func(more string) string { return `{"code":"OVER_LIMIT"` + more + `}` }
	allowed := func(statuses ...string) string {
		return `{"overallCode":"OK","statuses":[` + strings.Join(statuses, ",") + `]}`
	}
	denied := func(wait string, statuses ...string) string {
		return `{"overallCode":"OVER_LIMIT","responseHeadersToAdd":[{"key":"Retry-After","value":"` + wait + `"}],"statuses":[` + strings.Join(statuses, ",") + `]}`
	}
	for _, x := range []struct {
		name  string
		calls []string
		want  string // the answer to the last call
	}{
		{"one hit is the default", []string{about(descriptor("user", "a", ""), "")}, allowed(ok(`,` + limit5 + `,"limitRemaining":4,"durationUntilReset":"50s"`))},
		{"hits of the request", []string{about(descriptor("user", "a", ""), `,"hitsAddend":3`)}, allowed(ok(`,` + limit5 + `,"limitRemaining":2,"durationUntilReset":"50s"`))},
		{
			"hits of a descriptor win",
			[]string{about(descriptor("user", "a", `,"hitsAddend":"2"`)+","+descriptor("user", "b", ""), `,"hitsAddend":3`)},
			allowed(ok(`,`+limit5+`,"limitRemaining":3,"durationUntilReset":"50s"`), ok(`,`+limit5+`,"limitRemaining":2,"durationUntilReset":"50s"`)),
		},
		{
			"zero hits look only",
			[]string{about(descriptor("user", "a", ""), ""), about(descriptor("user", "a", `,"hitsAddend":"0"`), ""), about(descriptor("user", "a", `,"hitsAddend":"0"`), `,"hitsAddend":3`)},
			allowed(ok(`,` + limit5 + `,"limitRemaining":4,"durationUntilReset":"50s"`)),
		},
		{
			"negative hits are a refund",
			[]string{about(descriptor("user", "a", ""), `,"hitsAddend":4`), about(descriptor("user", "a", `,"hitsAddend":"3","isNegativeHits":true`), "")},
			allowed(ok(`,` + limit5 + `,"limitRemaining":4,"durationUntilReset":"50s"`)),
		},
		{
			"a refund of the request's hits",
			[]string{about(descriptor("user", "a", ""), `,"hitsAddend":4`), about(descriptor("user", "a", `,"isNegativeHits":true`), `,"hitsAddend":2`)},
			allowed(ok(`,` + limit5 + `,"limitRemaining":3,"durationUntilReset":"50s"`)),
		},
		{
			"over the limit",
			[]string{about(descriptor("user", "a", ""), `,"hitsAddend":5`), about(descriptor("user", "a", ""), "")},
			denied("50", over(`,`+limit5+`,"durationUntilReset":"50s"`)),
		},
		{
			"all or nothing, in order", []string{
				about(descriptor("user", "full", ""), `,"hitsAddend":5`),
				about(descriptor("user", "a", "")+","+descriptor("user", "full", "")+","+descriptor("other", "x", ""), ""),
				about(descriptor("user", "a", `,"hitsAddend":"0"`), ""),
			}, allowed(ok(`,` + limit5 + `,"limitRemaining":5` + `,"durationUntilReset":"0s"`)),
		},
		{"no rule", []string{about(descriptor("other", "x", "")+","+descriptor("user", "a", ""), "")}, allowed(ok(""), ok(`,`+limit5+`,"limitRemaining":4,"durationUntilReset":"50s"`))},
		{"an unknown domain", []string{`{"domain":"elsewhere","descriptors":[` + descriptor("user", "a", "") + `]}`}, allowed(ok(""))},
		{"unlimited", []string{about(descriptor("unlimited", "a", ""), "")}, allowed(ok(`,"limitRemaining":4294967295`))},
		{"a label", []string{about(descriptor("labeled", "a", ""), "")}, allowed(ok(`,"currentLimit":{"requestsPerUnit":10,"unit":"HOUR","name":"per-hour"},"limitRemaining":9,"durationUntilReset":"3590s"`))},
		{"several units", []string{about(descriptor("tens", "a", ""), "")}, allowed(ok(`,"currentLimit":{"requestsPerUnit":100,"unit":"MINUTE","unitMultiplier":10},"limitRemaining":99,"durationUntilReset":"590s"`))},
		{"part of a second counts", []string{about(descriptor("bucket", "a", ""), "")}, allowed(ok(`,"currentLimit":{"requestsPerUnit":2,"unit":"SECOND"},"limitRemaining":9,"durationUntilReset":"1s"`))},
		{
			"shadow",
			[]string{about(descriptor("shadow", "a", ""), ""), about(descriptor("shadow", "a", ""), "")},
			allowed(ok(`,"currentLimit":{"requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"50s"`)),
		},
		{
			"one quota of two is left",
			[]string{about(descriptor("qa", "a", "")+","+descriptor("qb", "a", ""), ""), about(descriptor("qa", "a", "")+","+descriptor("qb", "a", ""), "")},
			allowed(over(`,"currentLimit":{"requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"50s"`), ok(`,"currentLimit":{"requestsPerUnit":2,"unit":"MINUTE"},"durationUntilReset":"50s"`)),
		},
		{
			"a limit of the descriptor",
			[]string{about(descriptor("user", "a", `,"limit":{"requestsPerUnit":7,"unit":"HOUR"}`), "")},
			allowed(ok(`,"currentLimit":{"requestsPerUnit":7,"unit":"HOUR"},"limitRemaining":6,"durationUntilReset":"3590s"`)),
		},
		{
			"a limit of the descriptor over several units",
			[]string{about(descriptor("user", "a", `,"limit":{"requestsPerUnit":7,"unit":"SECOND","unitMultiplier":30}`), "")},
			allowed(ok(`,"currentLimit":{"requestsPerUnit":7,"unit":"SECOND","unitMultiplier":30},"limitRemaining":6,"durationUntilReset":"20s"`)),
		},
		{
			"a limit of the descriptor that admits nothing",
			[]string{about(descriptor("user", "a", `,"limit":{"requestsPerUnit":0,"unit":"SECOND"}`), "")},
			`{"overallCode":"OVER_LIMIT","statuses":[` + over(`,"currentLimit":{"unit":"SECOND"},"durationUntilReset":"0s"`) + `]}`,
		},
		{"denied by a list, so not by a count", []string{about(descriptor("listed", "bad", ""), "")}, `{"overallCode":"OVER_LIMIT","statuses":[` + over("") + `]}`},
		{"allowed by a list, so not by a count", []string{about(descriptor("listed", "good", ""), "")}, allowed(ok(""))},
		{"no domain", []string{`{"descriptors":[` + descriptor("user", "a", "") + `]}`}, "rpc error: code = InvalidArgument desc = rls: the domain is empty; set domain in the rate limit filter of the gateway"},
		{"no descriptors", []string{`{"domain":"d"}`}, "rpc error: code = InvalidArgument desc = rls: there are no descriptors; give the route of the gateway a rate limit action that makes one"},
		{"a limit without a unit", []string{about(descriptor("user", "a", `,"limit":{"requestsPerUnit":7}`), "")}, "rpc error: code = InvalidArgument desc = rls: limit of descriptor 0: unit is 0; give SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"},
		{"a limit over no unit", []string{about(descriptor("user", "a", `,"limit":{"requestsPerUnit":7,"unit":"DAY","unitMultiplier":0}`), "")}, "rpc error: code = InvalidArgument desc = rls: limit of descriptor 0: unit_multiplier is 0; give 1 or more, or leave it out"},
		{"a limit over too long", []string{about(descriptor("user", "a", `,"limit":{"requestsPerUnit":7,"unit":"YEAR","unitMultiplier":101}`), "")}, "rpc error: code = InvalidArgument desc = rls: limit of descriptor 0: unit_multiplier is 101; a period is 100 years at most"},
		{"too many hits", []string{about(descriptor("user", "a", `,"hitsAddend":"9223372036854775808"`), "")}, "rpc error: code = InvalidArgument desc = rls: hits_addend of descriptor 0 is 9223372036854775808; the most is 9223372036854775807"},
		{"too many descriptors", []string{about(strings.Repeat(descriptor("user", "a", "")+",", mostDescriptors)+descriptor("user", "a", ""), "")}, "rpc error: code = InvalidArgument desc = rls: there are 1001 descriptors; the most is 1000"},
		{"too many entries", []string{about(`{"entries":[`+strings.Repeat(`{"key":"a"},`, mostEntries)+`{"key":"a"}]}`, "")}, "rpc error: code = InvalidArgument desc = rls: a descriptor has more than 64 entries"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, rules...)
			w.serve(Options{Headers: quiet(t)})
			var got string
			for _, q := range x.calls {
				got = w.call(q)
			}
			if canonical(got) != canonical(x.want) {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
			if !strings.HasPrefix(got, "rpc error") && w.seen != len(x.calls) {
				t.Errorf("%d verdicts of %d calls were seen", w.seen, len(x.calls))
			}
		})
	}
}

// canonical orders the fields of JSON.
func canonical(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return string(b)
}

// TestHeadersOfRateLimitAnswers checks the headers of answers, and the answer of a rule.
func TestHeadersOfRateLimitAnswers(t *testing.T) {
	own := rule("own", "own", window(1, time.Minute))
	own.WhenLimited = policy.LimitedAction{Status: 503, Body: `{"wait":{wait}}`, ContentType: "application/json", Header: map[string]string{"X-Why": "{rule}"}}
	never := rule("never", "never")
	never.Always = true
	w := newWorld(t, rule("user", "user", window(2, time.Minute)), own, never, listed())
	for _, x := range []struct{ name, call, want string }{
		{"allowed", about(descriptor("user", "a", ""), ""), `[{"key":"Ratelimit","value":"\"user\";r=1;t=50"},{"key":"Ratelimit-Policy","value":"\"user\";q=2;w=60"}] null`},
		{"listed once", about(descriptor("user", "b", "")+","+descriptor("user", "c", ""), ""), `[{"key":"Ratelimit","value":"\"user\";r=1;t=50"},{"key":"Ratelimit-Policy","value":"\"user\";q=2;w=60"}] null`},
		{"denied", about(descriptor("user", "a", ""), `,"hitsAddend":2`), `[{"key":"Ratelimit","value":"\"user\";r=1;t=50"},{"key":"Ratelimit-Policy","value":"\"user\";q=2;w=60"},{"key":"Retry-After","value":"50"}] null`},
		{"allowed by the rule", about(descriptor("own", "a", ""), ""), `[{"key":"Ratelimit","value":"\"own\";r=0;t=50"},{"key":"Ratelimit-Policy","value":"\"own\";q=1;w=60"}] null`},
		{
			"denied by the rule", about(descriptor("own", "a", ""), ""),
			`[{"key":"Cache-Control","value":"no-store"},{"key":"Content-Type","value":"application/json"},{"key":"Ratelimit","value":"\"own\";r=0;t=50"},{"key":"Ratelimit-Policy","value":"\"own\";q=1;w=60"},` +
				`{"key":"Retry-After","value":"50"},{"key":"X-Content-Type-Options","value":"nosniff"},{"key":"X-Why","value":"own"}] "eyJ3YWl0Ijo1MH0="`,
		},
		{"no rule", about(descriptor("none", "a", ""), ""), `null null`},
		{"denied by a rule without limits", about(descriptor("never", "a", ""), ""), `null null`},
		{"denied by a rule without limits, beside another", about(descriptor("user", "a", "")+","+descriptor("never", "a", ""), ""), `null null`},
		{"denied by a list", about(descriptor("listed", "bad", ""), ""), `null null`},
		{"allowed by a list", about(descriptor("listed", "good", ""), ""), `null null`},
	} {
		var got struct {
			ResponseHeadersToAdd, RawBody json.RawMessage
		}
		text := w.call(x.call)
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: the answer %s is not JSON: %v", x.name, text, err)
		}
		if found := orNull(got.ResponseHeadersToAdd) + " " + orNull(got.RawBody); found != x.want {
			t.Errorf("%s: got  %s\nwant %s", x.name, found, x.want)
		}
	}
}

func orNull(b json.RawMessage) string {
	if b == nil {
		return "null"
	}
	return string(b)
}

// TestMetadataHasNoValueOfADescriptor checks the explanation for the filters and logs of the gateway. It has no value of a descriptor.
func TestMetadataHasNoValueOfADescriptor(t *testing.T) {
	r, other := rule("user", "user", window(1, time.Minute)), rule("other", "other", window(9, time.Minute))
	r.Match.Descriptor.Metadata = map[string]any{"tier": "free", "n": 3, "tags": []any{"a", true, nil, 1.5}, "in": map[string]any{"a": "1"}}
	other.Match.Descriptor.Metadata = map[string]any{"tier": "paid", "in": map[string]any{"a": "2", "b": "3"}}
	shadow := rule("shadow", "shadow", window(1, time.Minute))
	shadow.Shadow = true
	w := newWorld(t, r, other, shadow)
	metadata := func(request string) string {
		text, err := w.answer(request)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "secret") {
			t.Errorf("the answer has a key: %s", text)
		}
		var got struct{ DynamicMetadata map[string]any }
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(got.DynamicMetadata)) {
			value, err := json.Marshal(got.DynamicMetadata[name])
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(name + "=" + string(value) + "\n")
		}
		return b.String()
	}
	for _, x := range []struct{ request, want string }{
		{
			about(descriptor("user", "secret", "")+","+descriptor("other", "secret", ""), ""), `action="allow"
explanation="allow: the tightest rule is user, 0 of 1 remain"
limit="user"
metadata={"in":{"a":"1","b":"3"},"n":3,"tags":["a",true,null,1.5],"tier":"free"}
rule="user"
`,
		},
		{
			about(descriptor("user", "secret", ""), ""), `action="deny"
explanation="deny: rule user: limited, 0 of 1 remain, retry after 50s"
limit="user"
reason="limited"
retry_after_seconds=50
rule="user"
`,
		},
		{about(descriptor("shadow", "secret", ""), `,"hitsAddend":2`), "action=\"allow\"\nexplanation=\"allow\"\nshadow=\"shadow\"\n"},
		{about(descriptor("none", "secret", ""), ""), ""},
	} {
		if got := metadata(x.request); got != x.want {
			t.Errorf("got  %s\nwant %s", got, x.want)
		}
	}
}

// broken is a store that never decides in time.
type broken struct{ sluice.Store }

func (broken) Decide(ctx context.Context, _ sluice.Request) (sluice.Decision, error) {
	<-ctx.Done()
	return sluice.Decision{}, errors.Join(errors.New("no answer"), ctx.Err())
}

func (broken) DecideAll(ctx context.Context, _ []sluice.Request, _ []sluice.Decision) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestCallsAreAnsweredBeforeTheirDeadline checks that a call is answered before its deadline, as the rule says, while the store does not answer.
func TestCallsAreAnsweredBeforeTheirDeadline(t *testing.T) {
	strict := rule("strict", "strict", window(5, time.Minute))
	strict.OnStoreError = sluice.FallbackDeny
	p, err := policy.New(policy.Options{Rules: []policy.Rule{rule("user", "user", window(5, time.Minute)), strict}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := policy.NewDecider(p, broken{store})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.decider = d
	w.serve(Options{Margin: time.Hour, Headers: quiet(t)})
	for key, want := range map[string]string{
		"user":   `{"overallCode":"OK","statuses":[{"code":"OK","durationUntilReset":"0s"}],"dynamicMetadata":{"action":"allow","explanation":"allow: the store could not decide; on_store_error of rule user is allow","rule":"user"}}`,
		"strict": `{"overallCode":"OVER_LIMIT","responseHeadersToAdd":[{"key":"Retry-After","value":"1"}],"statuses":[{"code":"OVER_LIMIT","durationUntilReset":"0s"}],"dynamicMetadata":{"action":"deny","explanation":"deny: the store could not decide; on_store_error of rule strict is deny","reason":"store-error","rule":"strict"}}`,
	} {
		c := &call{service: w.Service, header: map[string][]string{}}
		c.domain, c.count, c.each, c.overrides = "d", 1, make([]hits, 1), make([]override, 1)
		c.descriptors = []descriptors.Request{{Entries: []descriptors.Entry{{Key: key, Value: "a"}}}}
		synctest.Test(t, func(t *testing.T) { // in virtual time, because a busy machine may be late
			const deadline = 400 * time.Millisecond
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			if err := w.decide(ctx, c); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); ctx.Err() != nil || took == 0 {
				t.Errorf("%s: the answer took %v of %v", key, took, deadline)
			}
		})
		if got := w.text(c.out); canonical(got) != canonical(want) {
			t.Errorf("%s: the answer is %s, want %s", key, got, want)
		}
	}
}
