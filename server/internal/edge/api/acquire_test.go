package api

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// flight allows two units in flight and two in the queue, for everybody.
const flight = `
rules:
  - name: flight
    key: [global]
    limit: {algorithm: concurrency, max: 2, queue: 2, ttl: 200ms, latency: 50ms}
`

// TestAcquireQueuesAndReleases: queued work begins when a lease is free, and not before.
func TestAcquireQueuesAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unserved(t, flight, nil)
		first := s.want(true, "/v1/acquire", `{}`)
		second := s.want(true, "/v1/acquire", `{}`)
		third := s.want(true, "/v1/acquire", `{}`)
		if first.DelayMS != 0 || second.DelayMS != 0 || third.DelayMS == 0 || third.opened.ExpiresInMS != 200 {
			t.Fatalf("delays of %d, %d and %d ms, token for %d ms", first.DelayMS, second.DelayMS, third.DelayMS, third.opened.ExpiresInMS)
		}
		if r := s.call("/v1/renew", `{"token": "`+third.Token+`"}`); r.status != http.StatusOK || r.DelayMS == 0 {
			t.Fatalf("a renewal in the queue: %+v", r)
		}
		if r := s.call("/v1/release", `{"token": "`+first.Token+`"}`); r.status != http.StatusOK || !r.Ended || r.Lost != 0 {
			t.Fatalf("a release: %+v", r)
		}
		if r := s.call("/v1/renew", `{"token": "`+third.Token+`"}`); r.status != http.StatusOK || r.DelayMS != 0 {
			t.Fatalf("a renewal with a free lease: %+v", r)
		}
		for _, path := range []string{"/v1/release", "/v1/renew"} {
			if r := s.call(path, `{"token": "`+first.Token+`"}`); r.status != http.StatusNotFound || r.Remedy == "" {
				t.Errorf("%s of a token that was released: %+v", path, r)
			}
		}
	})
}

// TestAcquireFromADeadClient: a client that neither renews nor releases loses the lease.
func TestAcquireFromADeadClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unserved(t, flight, nil)
		held := s.want(true, "/v1/acquire", `{}`)
		dead := s.want(true, "/v1/acquire", `{}`)
		for range 8 { // twice the time to live
			if r := s.call("/v1/renew", `{"token": "`+held.Token+`"}`); r.status != http.StatusOK {
				t.Fatalf("renewing in time: %+v", r)
			}
			<-time.After(50 * time.Millisecond)
		}
		if r := s.call("/v1/renew", `{"token": "`+dead.Token+`"}`); r.status != http.StatusNotFound {
			t.Errorf("the token of a client that was dead: %+v", r)
		}
		if r := s.want(true, "/v1/acquire", `{"max_wait_ms": 0}`); r.DelayMS != 0 {
			t.Errorf("its lease is not free: %+v", r)
		}
	})
}

// TestAcquireNeedsAConcurrencyLimit: without one there is nothing to hold, and
// nothing stays charged.
func TestAcquireNeedsAConcurrencyLimit(t *testing.T) {
	s := serve(t, budget, nil)
	if r := s.call("/v1/acquire", `{}`); r.status != http.StatusConflict || r.Remedy == "" {
		t.Errorf("got %+v", r)
	}
	if got := s.remaining("budget"); got != 10 {
		t.Errorf("%d of 10 remain", got)
	}
	reserved := s.want(true, "/v1/reserve", `{}`)
	if r := s.call("/v1/renew", `{"token": "`+reserved.Token+`"}`); r.status != http.StatusConflict {
		t.Errorf("renewing a reservation without leases: %+v", r)
	}
	if r := s.call("/v1/cancel", `{"token": "`+reserved.Token+`"}`); r.status != http.StatusOK {
		t.Errorf("its token was lost: %+v", r)
	}
	if s.api.Open() != 0 {
		t.Errorf("%d tokens are open", s.api.Open())
	}
	if r := s.call("/v1/renew", `{"token": ""}`); r.status != http.StatusBadRequest || r.Field != "token" {
		t.Errorf("renewing nothing: %+v", r)
	}
}

// TestRenewsEachKeyOfALimit: a path with dots is held under each key that it has, and each lease is renewed.
func TestRenewsEachKeyOfALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unserved(t, `
rules:
  - name: one
    key: [path]
    limit: {algorithm: concurrency, max: 1, ttl: 1s}
`, nil)
		held := s.want(true, "/v1/acquire", `{"path": "/a/%2e%2e/b"}`)
		for range 8 { // twice the time to live
			if r := s.call("/v1/renew", `{"token": "`+held.Token+`"}`); r.status != http.StatusOK {
				t.Fatalf("renewing in time: %+v", r)
			}
			<-time.After(250 * time.Millisecond)
		}
		for _, path := range []string{"/b", "/a/%2e%2e/b"} {
			s.want(false, "/v1/acquire", `{"path": "`+path+`"}`)
		}
		if r := s.call("/v1/release", `{"token": "`+held.Token+`"}`); r.status != http.StatusOK || r.Charges != 2 || r.Lost != 0 {
			t.Errorf("releasing: %+v", r)
		}
		s.want(true, "/v1/acquire", `{"path": "/a/%2e%2e/b"}`)
	})
}
