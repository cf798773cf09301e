package decisions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
)

// allBans returns all bans of a store, page by page.
func allBans(t *testing.T, b sluice.Banner) (bans []sluice.BannedKey, pages int) {
	t.Helper()
	q := sluice.BanQuery{Most: 10}
	for {
		page, err := b.ListBans(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		bans = append(bans, page.Bans...)
		if pages++; page.Next == "" || pages > 100_000 {
			return bans, pages
		}
		q.From = page.Next
	}
}

// banMany bans some keys by hand among others that are not, and returns whom.
func banMany(t *testing.T, s *redisstore.Store, n int) map[sluice.Key]bool {
	t.Helper()
	l := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerHour(100)})
	want := map[sluice.Key]bool{}
	for i := range n {
		k := sluice.NewKey("someone!", strconv.Itoa(i))
		if err := s.BanKey(t.Context(), l, k, time.Hour); err != nil {
			t.Fatal(err)
		}
		want[k] = true
		if _, err := s.Decide(t.Context(), sluice.Request{Limit: l, Key: k, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

// sameBans compares what is listed with whom was banned.
func sameBans(t *testing.T, bans []sluice.BannedKey, want map[sluice.Key]bool) {
	t.Helper()
	got := map[sluice.Key]bool{}
	for _, b := range bans {
		if !want[b.Key] || b.Limit != "api" || !b.ByHand || b.Left <= 59*time.Minute || b.Left > time.Hour {
			t.Errorf("listed %+v", b)
		}
		got[b.Key] = true
	}
	if len(got) != len(want) {
		t.Errorf("%d keys are listed, want %d", len(got), len(want))
	}
}

// TestBansAreListed: through both adapters, on one server.
func TestBansAreListed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		// The prefix is a pattern, which SCAN must not take for one.
		s := a.Open(t, adapters.To(server.Addr()), redisstore.Options{Prefix: `p*[a]?\` + a.Name})
		want := banMany(t, s, 300)
		// What others keep is not ours: their keys look alike.
		for i, key := range []string{`pXa?\` + a.Name + "{x}!api", a.Name + "{x}!api", `p*[a]?\` + a.Name + "{x}:a!b", `p*[a]?\` + a.Name + "{x}q!b"} {
			if _, err := server.Do(t.Context(), "SET", key, strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := server.Do(t.Context(), "RPUSH", `p*[a]?\`+a.Name+"{list}!api", "x"); err != nil {
			t.Fatal(err)
		}
		bans, pages := allBans(t, s)
		sameBans(t, bans, want)
		if pages < 2 {
			t.Errorf("%d pages", pages)
		}
	})
}

// TestBansAreListedOnACluster: on all masters, and on no replica.
func TestBansAreListedOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		s := a.Open(t, adapters.ToCluster(cluster), redisstore.Options{Prefix: a.Name})
		want := banMany(t, s, 300)
		bans, _ := allBans(t, s)
		sameBans(t, bans, want)
		if len(bans) != len(want) {
			t.Errorf("%d bans are listed, want %d: some twice", len(bans), len(want))
		}
		masters, err := cluster.Masters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range masters {
			n, err := m.Int(t.Context(), "DBSIZE")
			if err != nil || n == 0 {
				t.Errorf("a master has %d keys, %v: nothing was shown", n, err)
			}
		}
	})
}

// TestHashedBansAreListed: the list has the digest of a key that is stored as a digest.
func TestHashedBansAreListed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := adapters.Rueidis.Open(t, adapters.To(server.Addr()), redisstore.Options{Secret: []byte("0123456789abcdef")})
	l := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerHour(100)})
	k := sluice.StringKey("someone")
	if err := s.BanKey(t.Context(), l, k, time.Hour); err != nil {
		t.Fatal(err)
	}
	bans, _ := allBans(t, s)
	if len(bans) != 1 || bans[0].Digest == "" || bans[0].Key != (sluice.Key{}) || strings.Contains(fmt.Sprint(bans), "someone") {
		t.Errorf("listed %+v", bans)
	}
	d, err := s.Decide(t.Context(), sluice.Request{Limit: l, Key: k, Cost: 1, Ban: &sluice.Ban{}})
	if err != nil || d.Reason != sluice.ReasonBanned {
		t.Errorf("the banned key got %+v, %v", d, err)
	}
}

// TestTenantsBansAreListed: the tenant is not a part of the key.
func TestTenantsBansAreListed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := adapters.Rueidis.Open(t, adapters.To(server.Addr()), redisstore.Options{
		Tenant: func(k sluice.Key) string { return k.Parts()[0] },
	})
	l := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerHour(100)})
	for _, k := range []sluice.Key{sluice.NewKey("}t{", "user}!"), sluice.NewKey("", "x")} {
		if err := s.BanKey(t.Context(), l, k, time.Hour); err != nil {
			t.Fatal(err)
		}
		bans, _ := allBans(t, s)
		if len(bans) != 1 || bans[0].Key != k {
			t.Errorf("listed %+v, want %q", bans, k.Parts())
		}
		if found, err := s.LiftBan(t.Context(), l, k); err != nil || !found {
			t.Errorf("lifting the ban of a tenant's key: found %t, %v", found, err)
		}
	}
}

var _ sluice.Banner = (*memory.Store)(nil)

// TestListingWithoutPermission: a user without SCAN gets an error for it, and can still decide.
func TestListingWithoutPermission(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.ACL("user narrow on >secret-secret ~* +@all -scan"))
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		s := a.Open(t, adapters.Route{Addrs: []string{server.Addr()}, User: "narrow", Password: "secret-secret"}, redisstore.Options{Prefix: a.Name})
		banMany(t, s, 1)
		_, err := s.ListBans(t.Context(), sluice.BanQuery{})
		var reply *redisstore.ServerError
		if !errors.As(err, &reply) || !strings.HasPrefix(reply.Text, "NOPERM") || errors.Is(err, sluice.ErrUnknownOutcome) {
			t.Errorf("listing: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.ListBans(ctx, sluice.BanQuery{}); !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v", err)
		}
	})
}
