package httplimit_test

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

func headers(tb testing.TB, o httplimit.HeaderOptions) *httplimit.Headers {
	tb.Helper()
	h, err := httplimit.NewHeaders(o)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// verdict combines limit results as a KeyDecider does. The caller gives the index of the tightest result.
func verdict(tightest int, results ...policy.LimitResult) *policy.Verdict {
	t := &results[tightest]
	v := &policy.Verdict{Results: results, Tightest: t.Decision, TightestLimit: t.Request.Limit, Reason: t.Decision.Reason}
	if !t.Decision.Allowed {
		v.Action = policy.Deny
	}
	return v
}

func result(l *sluice.Limit, d sluice.Decision) policy.LimitResult {
	return policy.LimitResult{Request: sluice.Request{Limit: l, Cost: 1}, Decision: d}
}

func TestHeadersOfEachProfile(t *testing.T) {
	bucket := sluice.MustLimit("burst", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
	daily := sluice.MustLimit("daily", sluice.FixedWindow{Rate: sluice.PerDay(1000)})
	passed := verdict(0,
		result(bucket, sluice.Decision{Allowed: true, Limit: 20, Remaining: 4, ResetAfter: 9*time.Second + 100*time.Millisecond}),
		result(daily, sluice.Decision{Allowed: true, Limit: 1000, Remaining: 500, ResetAfter: time.Hour}),
	)
	denied := verdict(1,
		result(bucket, sluice.Decision{Allowed: true, Limit: 20, Remaining: 4, ResetAfter: time.Second}),
		result(daily, sluice.Decision{Reason: sluice.ReasonLimited, Limit: 1000, RetryAfter: 59*time.Minute + time.Millisecond, ResetAfter: time.Hour}),
	)
	never := verdict(0, result(daily, sluice.Decision{Reason: sluice.ReasonNever, Limit: 1000, Remaining: 500, ResetAfter: time.Hour}))
	for _, c := range []struct {
		name string
		o    httplimit.HeaderOptions
		v    *policy.Verdict
		want []string
	}{
		{"IETF", httplimit.HeaderOptions{}, passed, []string{
			// 15 units and a fraction are missing: after the fraction there is one more unit.
			`Ratelimit-Policy: "burst";q=20;w=12, "daily";q=1000;w=86400`, `Ratelimit: "burst";r=4;t=1`,
		}},
		{"IETF, denied", httplimit.HeaderOptions{}, denied, []string{
			`Ratelimit-Policy: "burst";q=20;w=12, "daily";q=1000;w=86400`, `Ratelimit: "daily";r=0;t=3541`, `Retry-After: 3541`,
		}},
		{"IETF, never", httplimit.HeaderOptions{}, never, []string{
			`Ratelimit-Policy: "daily";q=1000;w=86400`, `Ratelimit: "daily";r=500`,
		}},
		{"X-RateLimit", httplimit.HeaderOptions{Profile: httplimit.ProfileXRateLimit}, passed, []string{
			"X-Ratelimit-Limit: 20", "X-Ratelimit-Remaining: 4", "X-Ratelimit-Reset: 10",
		}},
		{"X-RateLimit, denied", httplimit.HeaderOptions{Profile: httplimit.ProfileXRateLimit}, denied, []string{
			"X-Ratelimit-Limit: 1000", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 3541", "Retry-After: 3541",
		}},
		{"X-RateLimit, never", httplimit.HeaderOptions{Profile: httplimit.ProfileXRateLimit}, never, []string{
			"X-Ratelimit-Limit: 1000", "X-Ratelimit-Remaining: 500", "X-Ratelimit-Reset: 3600",
		}},
		{"X-Rate-Limit", httplimit.HeaderOptions{Profile: httplimit.ProfileXRateLimitDashed}, passed, []string{
			"X-Rate-Limit-Limit: 20", "X-Rate-Limit-Remaining: 4", "X-Rate-Limit-Reset: 10",
		}},
		{"RateLimit-Limit", httplimit.HeaderOptions{Profile: httplimit.ProfileRateLimit}, passed, []string{
			"Ratelimit-Limit: 20", "Ratelimit-Remaining: 4", "Ratelimit-Reset: 10",
		}},
		{"other names", httplimit.HeaderOptions{Profile: httplimit.ProfileXRateLimit, Names: [3]string{"x-most", "", "X-Back-In"}}, passed, []string{
			"X-Most: 20", "X-Ratelimit-Remaining: 4", "X-Back-In: 10",
		}},
		{"Envoy", httplimit.HeaderOptions{Profile: httplimit.ProfileEnvoy}, passed, []string{
			`X-Ratelimit-Limit: 20, 20;w=12;name="burst", 1000;w=86400;name="daily"`, "X-Ratelimit-Remaining: 4", "X-Ratelimit-Reset: 10",
		}},
		{"none", httplimit.HeaderOptions{Profile: httplimit.ProfileNone}, passed, nil},
		{"none, denied", httplimit.HeaderOptions{Profile: httplimit.ProfileNone}, denied, []string{"Retry-After: 3541"}},
		{"no limit", httplimit.HeaderOptions{}, &policy.Verdict{}, nil},
		{"no rule", httplimit.HeaderOptions{}, &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonNoRule}, nil},
		{"store error, allowed", httplimit.HeaderOptions{}, &policy.Verdict{Reason: sluice.ReasonStoreError}, nil},
		{"store error, denied", httplimit.HeaderOptions{}, &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonStoreError}, []string{"Retry-After: 1"}},
	} {
		h := make(http.Header)
		headers(t, c.o).Set(h, c.v)
		want := make(http.Header)
		for _, line := range c.want {
			name, value, _ := strings.Cut(line, ": ")
			want[name] = []string{value}
		}
		if !reflect.DeepEqual(h, want) {
			t.Errorf("%s: got %q; want %q", c.name, h, want)
		}
	}
}

// A reset written as a Unix time is never before the reset.
// What remains, and when it resets, is not known if a fallback has decided. The limit is.
func TestHeadersOfFallbacks(t *testing.T) {
	hourly := sluice.MustLimit("hourly", sluice.FixedWindow{Rate: sluice.PerHour(100)})
	daily := sluice.MustLimit("daily", sluice.FixedWindow{Rate: sluice.PerDay(1000)})
	// The fallback has a fourth of the limit.
	local := sluice.Decision{Allowed: true, Degraded: true, Limit: 25, Remaining: 24, ResetAfter: time.Hour}
	denied := sluice.Decision{Reason: sluice.ReasonStoreError, Degraded: true, Limit: 100, RetryAfter: 2 * time.Second}
	passed := sluice.Decision{Allowed: true, Limit: 1000, Remaining: 500, ResetAfter: time.Hour}
	for _, c := range []struct {
		name    string
		profile httplimit.Profile
		v       *policy.Verdict
		want    []string
	}{
		{"IETF", httplimit.ProfileIETF, verdict(0, result(hourly, local)), []string{`Ratelimit-Policy: "hourly";q=100;w=3600`}},
		{"IETF, denied", httplimit.ProfileIETF, verdict(0, result(hourly, denied)), []string{`Ratelimit-Policy: "hourly";q=100;w=3600`, `Retry-After: 2`}},
		{"IETF, several", httplimit.ProfileIETF, verdict(0, result(hourly, local), result(daily, local)), []string{
			`Ratelimit-Policy: "hourly";q=100;w=3600, "daily";q=1000;w=86400`,
		}},
		{"IETF, one of several", httplimit.ProfileIETF, verdict(1, result(hourly, local), result(daily, passed)), []string{
			`Ratelimit-Policy: "hourly";q=100;w=3600, "daily";q=1000;w=86400`, `Ratelimit: "daily";r=500;t=3600`,
		}},
		{"X-RateLimit", httplimit.ProfileXRateLimit, verdict(0, result(hourly, local)), []string{"X-Ratelimit-Limit: 100"}},
		{"X-Rate-Limit, denied", httplimit.ProfileXRateLimitDashed, verdict(0, result(hourly, denied)), []string{"X-Rate-Limit-Limit: 100", "Retry-After: 2"}},
		{"RateLimit", httplimit.ProfileRateLimit, verdict(0, result(hourly, local)), []string{"Ratelimit-Limit: 100"}},
		{"Envoy", httplimit.ProfileEnvoy, verdict(0, result(hourly, local)), []string{`X-Ratelimit-Limit: 100, 100;w=3600;name="hourly"`}},
		{"none", httplimit.ProfileNone, verdict(0, result(hourly, denied)), []string{"Retry-After: 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := http.Header{}
			headers(t, httplimit.HeaderOptions{Profile: c.profile}).Set(got, c.v)
			want := http.Header{}
			for _, line := range c.want {
				name, value, _ := strings.Cut(line, ": ")
				want[name] = []string{value}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestHeadersUnixReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Midnight of 2000-01-01, and a fraction of a second.
		<-time.After(time.Millisecond)
		limit := sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerMinute(10)})
		v := verdict(0, result(limit, sluice.Decision{Allowed: true, Limit: 10, Remaining: 9, ResetAfter: 59*time.Second + 999*time.Millisecond}))
		for _, profile := range []httplimit.Profile{httplimit.ProfileXRateLimit, httplimit.ProfileXRateLimitDashed} {
			h := make(http.Header)
			headers(t, httplimit.HeaderOptions{Profile: profile, Reset: httplimit.ResetUnix}).Set(h, v)
			if got := h.Get("X-RateLimit-Reset") + h.Get("X-Rate-Limit-Reset"); got != "946684860" {
				t.Errorf("profile %d: reset at %s", profile, got)
			}
		}
	})
}

// Options of headers that are invalid, or contradict each other, are errors.
func TestBadHeaderOptionsAreErrors(t *testing.T) {
	for _, o := range []httplimit.HeaderOptions{
		{Profile: 99},
		{Reset: 2},
		{Reset: httplimit.ResetUnix},
		{Profile: httplimit.ProfileRateLimit, Reset: httplimit.ResetUnix},
		{Names: [3]string{"X-Limit"}},
		{Profile: httplimit.ProfileNone, Names: [3]string{"", "", "X-Reset"}},
		{Profile: httplimit.ProfileXRateLimit, Names: [3]string{"", "X Remaining"}},
		{Jitter: -1},
		{Jitter: 48 * time.Hour},
	} {
		if _, err := httplimit.NewHeaders(o); err == nil || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("%+v: got error %v", o, err)
		}
	}
}

// RateLimit-Policy describes every algorithm, and quotes names that are not plain text.
func TestPolicyItems(t *testing.T) {
	berlin := time.FixedZone("Berlin", 3600)
	for want, l := range map[string]*sluice.Limit{
		`"l";q=100;w=60`:                   sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerMinute(100)}),
		`"l";q=7;w=5`:                      sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 7}),
		`"l";q=11;w=3`:                     sluice.MustLimit("l", sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 10}),
		`"l";q=5;w=1`:                      sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.Per(5, 100*time.Millisecond)}),
		`"l";q=5;w=86400`:                  sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarDay, Zone: berlin}),
		`"l";q=5;w=604800`:                 sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarWeek}),
		`"l";q=5`:                          sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarMonth}),
		`"l";q=6;w=60`:                     sluice.MustLimit("l", sluice.SlidingWindow{Rate: sluice.PerMinute(6)}),
		`"l";q=8;w=60`:                     sluice.MustLimit("l", sluice.SlidingCounter{Rate: sluice.PerMinute(8)}),
		`"l";q=9;w=60`:                     sluice.MustLimit("l", sluice.SlidingLog{Rate: sluice.PerMinute(9)}),
		`"l";q=3;qu="concurrent-requests"`: sluice.MustLimit("l", sluice.Concurrency{Max: 2, Queue: 1}),
		`"a\"b\\c%0D%0Ad%C3%A9";q=5;w=1`:   sluice.MustLimit("a\"b\\c\r\ndé", sluice.FixedWindow{Rate: sluice.PerSecond(5)}),
	} {
		h := make(http.Header)
		headers(t, httplimit.HeaderOptions{}).Set(h, verdict(0, result(l, sluice.Decision{Allowed: true, Limit: l.Capacity()})))
		if got := h.Get("RateLimit-Policy"); got != want {
			t.Errorf("got %s; want %s", got, want)
		}
	}
}

// A limit's name is the only text in a header. No character in it can end the header
// or begin another.
func TestHeaderInjection(t *testing.T) {
	named := func(profile httplimit.Profile, name string) http.Header {
		l := sluice.MustLimit(name, sluice.FixedWindow{Rate: sluice.PerSecond(5)})
		h := make(http.Header)
		headers(t, httplimit.HeaderOptions{Profile: profile}).Set(h, verdict(0, result(l, sluice.Decision{Limit: 5, RetryAfter: time.Second})))
		return h
	}
	for profile := range httplimit.ProfileNone {
		want := slices.Sorted(maps.Keys(named(profile, "x")))
		for c := range 256 {
			h := named(profile, "x"+string([]byte{byte(c)})+"Set-Cookie: a=b")
			// A server writes values as they are, unless it is as careful as net/http.
			text := ""
			for name, values := range h {
				for _, v := range values {
					text += name + ": " + v + "\r\n"
					if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
						t.Errorf("byte %d came out as %q", c, v)
					}
				}
			}
			read, err := textproto.NewReader(bufio.NewReader(strings.NewReader(text + "\r\n"))).ReadMIMEHeader()
			if got := slices.Sorted(maps.Keys(read)); err != nil || !slices.Equal(got, want) {
				t.Errorf("byte %d: a client reads the headers %v, %v; want %v", c, got, err, want)
			}
		}
	}
}

// Nested middlewares add to the lists of the IETF's profile, and do not change values
// that other responses share.
func TestHeadersOfSeveralMiddlewares(t *testing.T) {
	a := sluice.MustLimit("a", sluice.FixedWindow{Rate: sluice.PerSecond(5)})
	b := sluice.MustLimit("b", sluice.FixedWindow{Rate: sluice.PerSecond(6)})
	set := headers(t, httplimit.HeaderOptions{})
	h := make(http.Header)
	set.Set(h, verdict(0, result(a, sluice.Decision{Allowed: true, Limit: 5, Remaining: 5})))
	set.Set(h, verdict(0, result(b, sluice.Decision{Allowed: true, Limit: 6, Remaining: 6})))
	if got := strings.Join(h["Ratelimit"], ", "); got != `"a";r=5, "b";r=6` {
		t.Errorf("RateLimit is %s", got)
	}
	if got := strings.Join(h["Ratelimit-Policy"], ", "); got != `"a";q=5;w=1, "b";q=6;w=1` {
		t.Errorf("RateLimit-Policy is %s", got)
	}
	// A handler that changes its headers in place changes no other response.
	h["Ratelimit-Policy"][0] = "changed"
	other := make(http.Header)
	set.Set(other, verdict(0, result(a, sluice.Decision{Allowed: true, Limit: 5, Remaining: 5})))
	if got := other.Get("RateLimit-Policy"); got != `"a";q=5;w=1` {
		t.Errorf("another response has %s", got)
	}
}

// Headers leave out shadow rules.
func TestHeadersWithoutShadow(t *testing.T) {
	a := sluice.MustLimit("a", sluice.FixedWindow{Rate: sluice.PerSecond(5)})
	shadow := result(sluice.MustLimit("b", sluice.FixedWindow{Rate: sluice.PerSecond(6)}), sluice.Decision{Limit: 6})
	shadow.Request.Shadow = true
	v := verdict(0, result(a, sluice.Decision{Allowed: true, Limit: 5, Remaining: 5}), shadow)
	h := make(http.Header)
	headers(t, httplimit.HeaderOptions{}).Set(h, v)
	if got := h.Get("RateLimit-Policy"); got != `"a";q=5;w=1` {
		t.Errorf("RateLimit-Policy is %s", got)
	}
}

// Limits that change while in use do not make the cache grow without a bound, and
// the headers describe the current limit.
func TestHeadersOfManyLimits(t *testing.T) {
	set := headers(t, httplimit.HeaderOptions{})
	for i := range 40_000 {
		l := sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(int64(1 + i))})
		h := make(http.Header)
		set.Set(h, verdict(0, result(l, sluice.Decision{Allowed: true})))
		if got, want := h.Get("RateLimit-Policy"), fmt.Sprintf(`"l";q=%d;w=1`, 1+i); got != want {
			t.Fatalf("got %s; want %s", got, want)
		}
	}
}

// Times are whole seconds, rounded up. With any jitter, Retry-After is at least 1 and
// never earlier than the other headers.
func TestRetryAfterIsNeverEarly(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	limit := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerMinute(7)})
	for profile := httplimit.ProfileIETF; profile < httplimit.ProfileNone; profile++ {
		for _, jitter := range []time.Duration{0, time.Millisecond, 7 * time.Second} {
			set := headers(t, httplimit.HeaderOptions{Profile: profile, Jitter: jitter})
			for range 2000 {
				wait := 1 + time.Duration(rng.Int64N(int64(30*time.Second)))
				d := sluice.Decision{Reason: sluice.ReasonLimited, Limit: 7, RetryAfter: wait, ResetAfter: wait * 2}
				h := make(http.Header)
				set.Set(h, verdict(0, result(limit, d)))
				again, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				other := h.Get("X-RateLimit-Reset") + h.Get("X-Rate-Limit-Reset") + h.Get("RateLimit-Reset")
				if profile == httplimit.ProfileIETF {
					_, other, _ = strings.Cut(h.Get("RateLimit"), ";t=")
				}
				if profile == httplimit.ProfileOpenAI {
					reset, err := time.ParseDuration(h.Get("X-RateLimit-Reset-Requests"))
					if err != nil {
						t.Fatalf("the time of the reset is not a duration: %v", err)
					}
					other = strconv.FormatInt(int64((reset+time.Second-1)/time.Second), 10)
				}
				until, err := strconv.ParseInt(other, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sent := time.Duration(again) * time.Second
				if again < 1 || again < until || sent < wait || sent >= wait+jitter+time.Second {
					t.Fatalf("profile %d, jitter %v: a wait of %v became Retry-After %d and %d", profile, jitter, wait, again, until)
				}
			}
		}
	}
}

// The `t` of a bucket is the second in which one more unit becomes available, neither
// later nor earlier.
func TestTimeToMore(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	set := headers(t, httplimit.HeaderOptions{})
	for range 2000 {
		count, period, burst := 1+rng.Int64N(1000), time.Duration(1+rng.IntN(100))*time.Second, 1+rng.Int64N(1000)
		limit, err := sluice.NewLimit("l", sluice.TokenBucket{Rate: sluice.Per(count, period), Burst: burst})
		if err != nil {
			continue
		}
		clock := int64(1)
		store := storeAt(t, &clock)
		key := sluice.StringKey("k")
		decide := func(peek bool, n int64) sluice.Decision {
			d, err := store.Decide(t.Context(), sluice.Request{Limit: limit, Key: key, Cost: n, Peek: peek})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		d := decide(false, 1+rng.Int64N(burst))
		clock += rng.Int64N(1 + int64(period/time.Microsecond))
		d = decide(false, min(1, d.Remaining))
		if !d.Allowed || d.Remaining == burst {
			continue
		}
		h := make(http.Header)
		set.Set(h, verdict(0, result(limit, d)))
		_, text, _ := strings.Cut(h.Get("RateLimit"), ";t=")
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("%v: %q of %+v", limit, h.Get("RateLimit"), d)
		}
		before := clock
		clock = before + (seconds-1)*1e6
		if got := decide(true, 0).Remaining; got > d.Remaining {
			t.Fatalf("%v: %d remaining, and already %d a second before t=%d", limit, d.Remaining, got, seconds)
		}
		clock = before + seconds*1e6
		if got := decide(true, 0).Remaining; got <= d.Remaining {
			t.Fatalf("%v: %d remaining, and %d after t=%d", limit, d.Remaining, got, seconds)
		}
	}
}

// With jitter, ten thousand clients that obey Retry-After do not all come back at the
// moment when a window ends.
func TestResetHerd(t *testing.T) {
	const clients, window = 10_000, 60
	clock := int64(window * 1e6)
	store := storeAt(t, &clock)
	limit := sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerMinute(1)})
	arrivals := func(jitter time.Duration) []int {
		set := headers(t, httplimit.HeaderOptions{Jitter: jitter})
		perSecond := make([]int, 5*window)
		rng := rand.New(rand.NewPCG(9, 10))
		for range clients {
			// Each client is refused at least a second before the window ends.
			clock = int64(2*window*1e6) + rng.Int64N((window-1)*1e6)
			d, err := store.Decide(t.Context(), sluice.Request{Limit: limit, Key: sluice.StringKey("everybody"), Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				continue
			}
			h := make(http.Header)
			set.Set(h, verdict(0, result(limit, d)))
			again, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			at := clock + again*1e6
			if at < 3*window*1e6 {
				t.Fatalf("Retry-After is at %d, before the window ends", at)
			}
			perSecond[at/1e6-3*window]++
		}
		return perSecond
	}
	const spread = 30
	with := arrivals(spread * time.Second)
	mean, peak := clients/spread, slices.Max(with)
	if peak > 2*mean {
		t.Errorf("with jitter %d come in one second; the mean is %d", peak, mean)
	}
	if without := slices.Max(arrivals(0)); without < clients/2 {
		t.Errorf("without jitter no more than %d come in one second: this tests nothing", without)
	}
}

// TestRetryAfterOfConcurrencyIsASecond: a unit is certain to be free only when a lease's
// TTL ends. Waiting for that would keep clients away for minutes.
func TestRetryAfterOfConcurrencyIsASecond(t *testing.T) {
	limit := sluice.MustLimit("uploads", sluice.Concurrency{Max: 1, TTL: 5 * time.Minute})
	h := make(http.Header)
	set := headers(t, httplimit.HeaderOptions{})
	set.Set(h, verdict(0, result(limit, sluice.Decision{Reason: sluice.ReasonLimited, Limit: 1, RetryAfter: 5 * time.Minute})))
	if got := h.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After is %q, want 1", got)
	}
	if got := h.Get("RateLimit"); got != `"uploads";r=0;t=1` {
		t.Errorf("RateLimit is %q", got)
	}
}

// A unit of concurrency may be free at any moment. If something else denies the request too, Retry-After
// is the end of that denial.
func TestRetryAfterOfConcurrencyAndOthers(t *testing.T) {
	flight, few := sluice.MustLimit("flight", sluice.Concurrency{Max: 1, TTL: 5 * time.Minute}), sluice.MustLimit("few", sluice.FixedWindow{Rate: sluice.PerMinute(1)})
	headers, err := httplimit.NewHeaders(httplimit.HeaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := func(l *sluice.Limit, reason sluice.Reason, wait time.Duration) policy.LimitResult {
		return policy.LimitResult{Request: sluice.Request{Limit: l}, Decision: sluice.Decision{Allowed: reason == sluice.ReasonNone, Reason: reason, RetryAfter: wait}}
	}
	free, full := result(few, sluice.ReasonNone, 0), result(flight, sluice.ReasonLimited, 4*time.Minute)
	candidate := result(few, sluice.ReasonLimited, time.Minute)
	candidate.Role = policy.RoleCandidate
	for want, all := range map[string][]policy.LimitResult{
		"1":   {full, free, candidate},
		"30":  {full, result(few, sluice.ReasonLimited, 30*time.Second)},
		"200": {result(flight, sluice.ReasonBanned, 200*time.Second), free},
		"240": {result(flight, sluice.ReasonBanned, 240*time.Second), full},
	} {
		v := &policy.Verdict{Action: policy.Deny, Reason: all[0].Decision.Reason, Tightest: all[0].Decision, TightestLimit: all[0].Request.Limit, Results: all}
		h := http.Header{}
		headers.Set(h, v)
		if got := h.Get("Retry-After"); got != want || !strings.HasSuffix(h.Get("RateLimit"), ";t="+want) {
			t.Errorf("Retry-After is %s; want %s: %v", got, want, h)
		}
	}
}
