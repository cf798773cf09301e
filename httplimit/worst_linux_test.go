package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// worstCPU bounds the processor time of the decision about any request of 64 KiB. Where nothing else runs, the longest takes half of
// it.
const worstCPU = 10 * time.Millisecond

// threadTime returns the processor time of this thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	const thisThread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Rules that read 20 parameters and 20 cookies, in keys and conditions, read a long query and long cookies once.
func TestWorstRequestsAreCheap(t *testing.T) {
	var rules []policy.Rule
	for i := range 20 {
		name := fmt.Sprintf("n%d", i)
		for _, part := range []policy.Part{policy.Query(name), policy.Cookie(name)} {
			match := policy.Match{Queries: []policy.ValueMatch{{Name: name, OneOf: []string{"x", "y"}}}}
			if part.Source == policy.FromCookie {
				match = policy.Match{Cookies: match.Queries}
			}
			rules = append(rules, policy.Rule{
				Name: part.Source.String() + name, Key: []policy.Part{part.IfMissing(policy.MissingShared).IfRepeated(policy.RepeatedShared)},
				Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000)})},
			}, policy.Rule{
				Name: "if-" + part.Source.String() + name, Match: match, Key: []policy.Part{policy.Global()},
				Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000)})},
			})
		}
	}
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	all := func(separator string) string {
		var s strings.Builder
		for i := range 20 {
			fmt.Fprintf(&s, "n%d=1%s", i, separator)
		}
		return s.String()
	}
	const half = 31 << 10
	fill := func(text string, n int) string { return strings.Repeat(text, n/len(text)) }
	for name, c := range map[string]struct{ query, cookie string }{
		"short names":      {fill("a&", half), fill("a;", half)},
		"other names":      {fill("n=1&", half), fill("n=1;", half)},
		"escaped names":    {fill("%6e=1&", 2*half), ""},
		"all names":        {fill(all("&"), half), fill(all(";"), half)},
		"names in lists":   {fill("n1[]=1&", half), fill("n1[]=1;", half)},
		"semicolons":       {fill("a;", 2*half), ""},
		"hidden cookies":   {"", fill("n=1,", 2*half)},
		"hidden of all":    {"", fill(all(","), 2*half)},
		"spaces":           {fill("+&", half), fill("n ", half)},
		"quotes":           {"", fill(`"`, 2*half)},
		"one long value":   {all("&") + "n1=" + fill("%61", half), all(";") + "n1=" + fill("%61", half)},
		"long hidden ones": {"", all(",") + fill("%61", 2*half)},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/?"+c.query, nil)
			if c.cookie != "" {
				r.Header.Set("Cookie", c.cookie)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			least := time.Hour
			for range 3 {
				const calls = 5 // the system counts in steps
				began := threadTime(t)
				for range calls {
					d.Decide(r)
				}
				least = min(least, (threadTime(t)-began)/calls)
			}
			t.Logf("%v", least)
			if least > worstCPU*raceCosts {
				t.Errorf("the decision takes %v of a processor, want %v at most", least, worstCPU)
			}
		})
	}
}
