package httplimit_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// keyed returns a KeyDecider, or fails the test.
func keyed(tb testing.TB, o httplimit.KeyOptions) *httplimit.Decider {
	tb.Helper()
	d, err := httplimit.NewKeyDecider(o)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// wrap returns a handler limited by d, or fails the test.
func wrap(tb testing.TB, d *httplimit.Decider, o httplimit.Options, next http.Handler) http.Handler {
	tb.Helper()
	m, err := httplimit.New(d, o)
	if err != nil {
		tb.Fatal(err)
	}
	return m.Wrap(next)
}

// recordingStore allows all requests and remembers them.
type recordingStore struct {
	sluice.Store
	decided []sluice.Request
}

func (s *recordingStore) Decide(_ context.Context, r sluice.Request) (sluice.Decision, error) {
	s.decided = append(s.decided, r)
	return sluice.Decision{Allowed: true, Limit: 1}, nil
}

// decidedKey returns the key that parts make of a request, and the verdict.
func decidedKey(tb testing.TB, r *http.Request, parts ...policy.Part) (sluice.Key, policy.Verdict) {
	tb.Helper()
	return decidedBehind(tb, nil, r, parts...)
}

// decidedBehind is decidedKey with a finder of client addresses.
func decidedBehind(tb testing.TB, ip *httplimit.ClientIP, r *http.Request, parts ...policy.Part) (sluice.Key, policy.Verdict) {
	tb.Helper()
	store := &recordingStore{}
	d := keyed(tb, httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})}, Key: parts, ClientIP: ip,
	})
	v := d.Decide(r)
	if len(store.decided) == 0 {
		return sluice.Key{}, v
	}
	return store.decided[0].Key, v
}

// keyOf returns the text of the key that one part makes of a request.
func keyOf(tb testing.TB, part policy.Part, r *http.Request) string {
	tb.Helper()
	return keyBehind(tb, nil, part, r)
}

// keyBehind is keyOf with a finder of client addresses.
func keyBehind(tb testing.TB, ip *httplimit.ClientIP, part policy.Part, r *http.Request) string {
	tb.Helper()
	key, _ := decidedBehind(tb, ip, r, part)
	if key.Len() != 1 {
		tb.Fatalf("the key has %d parts", key.Len())
	}
	return key.Text()
}

// storeAt returns a memory store whose clock reads now, in microseconds.
func storeAt(tb testing.TB, now *int64) *memory.Store {
	tb.Helper()
	s, err := memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return *now }})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
