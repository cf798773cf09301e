package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

const tenAnHour = `rules:
  - {name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h, burst: 10}}
  - {name: slots, match: {path: /work}, key: global, limit: {algorithm: concurrency, max: 10, ttl: 1h}}
`

// repeat makes a call with a key.
func (s *service) repeat(key, path, body string) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header[idempotencyHeader] = strings.Split(key, "|")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	return s.send(r)
}

// A call that is repeated with its key gets the first answer, and is charged once.
func TestRepeatedCallsAreChargedOnce(t *testing.T) {
	s := serve(t, tenAnHour, nil)
	const body = `{"client_ip": "192.0.2.1", "path": "/", "cost": 2}`
	left := func() int64 {
		return *s.call("/v1/peek", `{"client_ip": "192.0.2.1", "path": "/"}`).Limits[0].Remaining
	}
	for i := range 5 {
		if r := s.repeat("one", "/v1/check", body); !r.Allowed || *r.Limits[0].Remaining != 8 || (r.header.Get(replayedHeader) == "true") != (i > 0) {
			t.Errorf("call %d: allowed %t, %d left, %v", i, r.Allowed, *r.Limits[0].Remaining, r.header)
		}
	}
	if got := left(); got != 8 {
		t.Errorf("%d units are left, want 8", got)
	}
	// Another key, call, token or query is another call.
	s.repeat("two", "/v1/check", body)
	first := s.repeat("one", "/v1/reserve", strings.Replace(body, "2}", "1, \"ttl_ms\": 60000}", 1))
	again := s.repeat("one", "/v1/reserve", strings.Replace(body, "2}", "1, \"ttl_ms\": 60000}", 1))
	if first.Token == "" || first.Token != again.Token {
		t.Errorf("the tokens are %q and %q", first.Token, again.Token)
	}
	s.token = "another"
	if r := s.repeat("one", "/v1/check", body); r.header.Get(replayedHeader) != "" || *r.Limits[0].Remaining != 3 {
		t.Errorf("with another token, %d are left, %v", *r.Limits[0].Remaining, r.header)
	}
	s.token = ""
	// A denial is an answer too, with its status.
	for range 2 {
		if r := s.repeat("three", "/v1/check?status=429", strings.Replace(body, ": 2", ": 9", 1)); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
			t.Errorf("the denial has the status %d, %v", r.status, r.header)
		}
	}
	// A lease is taken once.
	const work = `{"path": "/work", "client_ip": "192.0.2.9"}`
	lease, same := s.repeat("four", "/v1/acquire", work), s.repeat("four", "/v1/acquire", work)
	if lease.Token == "" || lease.Token != same.Token {
		t.Errorf("the leases are %q and %q", lease.Token, same.Token)
	}
	// A batch is one call.
	batch := `{"requests": [` + body + `, ` + body + `]}`
	s.repeat("five", "/v1/check", strings.ReplaceAll(batch, ".1\"", ".7\""))
	s.repeat("five", "/v1/check", strings.ReplaceAll(batch, ".1\"", ".7\""))
	if got := *s.call("/v1/peek", `{"client_ip": "192.0.2.7", "path": "/"}`).Limits[0].Remaining; got != 6 {
		t.Errorf("after a batch %d are left, want 6", got)
	}
}

// An idempotency key that is invalid, or had another request, is refused.
func TestRefusedKeys(t *testing.T) {
	s := serve(t, tenAnHour, nil)
	const body = `{"client_ip": "192.0.2.1", "path": "/"}`
	s.repeat("one", "/v1/check", body)
	for name, x := range map[string]struct {
		key, body string
		status    int
	}{
		"another request": {"one", `{"client_ip": "192.0.2.2", "path": "/"}`, http.StatusUnprocessableEntity},
		"an empty key":    {"", body, http.StatusBadRequest},
		"a long key":      {strings.Repeat("k", 129), body, http.StatusBadRequest},
		"a space":         {"a b", body, http.StatusBadRequest},
		"two keys":        {"two|three", body, http.StatusBadRequest},
		"no JSON":         {"four", "{", http.StatusBadRequest},
	} {
		if r := s.repeat(x.key, "/v1/check", x.body); r.status != x.status {
			t.Errorf("%s is answered %d, want %d", name, r.status, x.status)
		}
	}
	// A mistake is not an answer: the same key may be sent with the mended request.
	if r := s.repeat("four", "/v1/check", body); r.status != http.StatusOK || r.header.Get(replayedHeader) != "" {
		t.Errorf("after a mistake, the key is answered %d, %v", r.status, r.header)
	}
}

// slow is a store whose decisions wait, and fail if their context ends meanwhile.
type slow struct {
	sluice.Store
	began chan struct{}
	end   chan struct{}
	calls atomic.Int64
}

func (s *slow) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	s.calls.Add(1)
	s.began <- struct{}{}
	<-s.end
	if ctx.Err() != nil {
		return sluice.Decision{}, errors.New("the context ended")
	}
	return s.Store.Decide(ctx, r)
}

// The first caller leaves before the store answers. Callers that repeat the call meanwhile, and afterwards, get the one
// decision.
func TestRepeatedWhileTheFirstRuns(t *testing.T) {
	var store *slow
	s := serve(t, tenAnHour, func(o *Options) {
		store = &slow{Store: o.Decider.Store(), began: make(chan struct{}, 100), end: make(chan struct{})}
		o.Decider = deciding(t, o.Decider.Policy(), store)
	})
	const body = `{"client_ip": "192.0.2.1", "path": "/"}`
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/check", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(idempotencyHeader, "one")
		if res, err := http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close()
			t.Error("the first caller got an answer")
		}
	}()
	<-store.began
	leave()
	<-gone
	var repeated sync.WaitGroup
	for range 8 {
		repeated.Go(func() {
			if r := s.repeat("one", "/v1/check", body); !r.Allowed || *r.Limits[0].Remaining != 9 || r.header.Get(replayedHeader) == "" {
				t.Errorf("allowed %t, %v", r.Allowed, r.header)
			}
		})
	}
	close(store.end)
	repeated.Wait()
	if got := store.calls.Load(); got != 1 {
		t.Errorf("the store decided %d times", got)
	}
}

// Answers are forgotten after their time, and are bounded in number and size.
func TestReplaysAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	s := newReplays()
	s.now = func() time.Time { return now }
	own := 0
	add := func(name string, text int) bool {
		own++ // each call is of another caller
		r, begun := s.begin(fmt.Sprint(own), digest([]byte(fmt.Sprintf("%-32s", name))), digest{})
		if r == nil || !begun {
			return false
		}
		r.answered, r.text = true, make([]byte, text)
		s.end(r)
		return true
	}
	for i := range mostReplays {
		if !add(fmt.Sprint(i), 0) {
			t.Fatalf("there is no room for answer %d", i)
		}
	}
	if add("more", 0) {
		t.Error("the answers are not bounded")
	}
	now = now.Add(replaysLast - 1)
	if add("more", 0) {
		t.Error("answers are forgotten early")
	}
	now = now.Add(1)
	if !add("more", mostReplayBytes) || len(s.byKey) != 1 || len(s.ended) != 1 {
		t.Errorf("%d answers are kept after their time", len(s.byKey))
	}
	if add("even more", 0) {
		t.Error("the bytes are not bounded")
	}
	now = now.Add(replaysLast)
	more := add("even more", 0)
	if bytes, callers := s.bytes.Taken(); !more || bytes != replayBytes || callers != 1 {
		t.Errorf("%d bytes of %d callers are counted", bytes, callers)
	}
	if calls, callers := s.calls.Taken(); calls != 1 || callers != 1 {
		t.Errorf("%d calls of %d callers are counted", calls, callers)
	}
}

// TestCallersShareTheRoom: a caller that sends a new key with each call leaves room for the others, whatever tokens it makes up.
// Callers with answers of their own keep them.
func TestCallersShareTheRoom(t *testing.T) {
	for name, text := range map[string]int{"calls": 0, "bytes": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			s := newReplays()
			calls := 0
			flood := func(address string) (n int) {
				for ; ; n++ {
					q := httptest.NewRequest(http.MethodPost, "/v1/check", nil)
					q.RemoteAddr = address
					calls++
					q.Header.Set("Authorization", fmt.Sprint("Bearer ", calls))
					r, begun := s.begin(callerOf(q), replayKey(q, "k"), digest{})
					if r == nil {
						return n
					}
					if !begun || n > mostReplays {
						t.Fatal("the flood has no end")
					}
					r.answered, r.text = true, make([]byte, text)
					s.end(r)
				}
			}
			room := flood("192.0.2.1:1")
			if all := min(mostReplays, mostReplayBytes/(text+replayBytes)); room < all/2 || room > all/2+1 {
				t.Errorf("one caller has %d answers, want half of %d", room, all)
			}
			for _, again := range []string{"192.0.2.1:2", "[::ffff:192.0.2.1]:3"} {
				if n := flood(again); n != 0 {
					t.Errorf("%s gets %d answers more", again, n)
				}
			}
			if n := flood("[2001:db8::1]:1"); n < room/2-1 || n > room/2+1 {
				t.Errorf("another caller has %d answers, want half of %d", n, room)
			}
			if n := flood("[2001:db8::2%eth0]:1"); n != 0 {
				t.Errorf("another address of its network gets %d answers more", n)
			}
		})
	}
}

// Callers that prove their identities by certificates do not get each other's answers.
func TestIdempotencyKeysBelongToACertificate(t *testing.T) {
	of := func(name string, serial int64) digest {
		r := httptest.NewRequest(http.MethodPost, "/v1/check", nil)
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(serial)}
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
		return replayKey(r, "k")
	}
	if of("a", 1) == of("b", 2) {
		t.Error("two callers share a key")
	}
	if of("a", 1) != of("a", 3) {
		t.Error("a renewed certificate makes another caller")
	}
}
