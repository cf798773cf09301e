package redisstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
)

func store(tb testing.TB, o Options) *Store {
	tb.Helper()
	s, err := New(&fakeClient{}, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestKeysAreReadable shows how keys are written.
func TestKeysAreReadable(t *testing.T) {
	perClient := sluice.MustLimit("per-client", sluice.TokenBucket{Rate: sluice.PerSecond(1)})
	long := sluice.MustLimit(strings.Repeat("n", 65), sluice.TokenBucket{Rate: sluice.PerSecond(1)})
	hash := sluice.MustLimit("#x", sluice.TokenBucket{Rate: sluice.PerSecond(1)})
	named := func(a sluice.Algorithm) *sluice.Limit { return sluice.MustLimit("n", a) }
	tenant := func(k sluice.Key) string { return k.Parts()[0] }
	for _, c := range []struct {
		o          Options
		l          *sluice.Limit
		k          sluice.Key
		state, ban string
	}{
		{Options{}, perClient, sluice.StringKey("192.0.2.1"), "sluice{192.0.2.1}:per-client", "sluice{192.0.2.1}!per-client"},
		{Options{Prefix: "app:"}, perClient, sluice.NewKey("a", "b"), "app:{\x01a\x01b}2:per-client", "app:{\x01a\x01b}2!per-client"},
		{Options{}, perClient, sluice.Key{}, "sluice{%}0:per-client", "sluice{%}0!per-client"},
		{Options{}, perClient, sluice.StringKey(""), "sluice{%}:per-client", "sluice{%}!per-client"},
		{Options{}, perClient, sluice.StringKey("}%{"), "sluice{%7D%25{}:per-client", "sluice{%7D%25{}!per-client"},
		{Options{Tenant: tenant}, perClient, sluice.NewKey("t", "u"), "sluice{t}\x01t\x01u}2:per-client", "sluice{t}\x01t\x01u}2!per-client"},
		{Options{}, named(sluice.TokenBucket{Rate: sluice.PerSecond(1)}), sluice.StringKey("k"), "sluice{k}:n", "sluice{k}!n"},
		{Options{}, named(sluice.TokenBucket{Rate: sluice.PerSecond(1), WarmUp: time.Second}), sluice.StringKey("k"), "sluice{k}warm:n", "sluice{k}!n"},
		{Options{}, named(sluice.LeakyBucket{Rate: sluice.PerSecond(1)}), sluice.StringKey("k"), "sluice{k}leaky:n", "sluice{k}!n"},
		{Options{}, named(sluice.FixedWindow{Rate: sluice.PerSecond(1)}), sluice.StringKey("k"), "sluice{k}fixed:n", "sluice{k}!n"},
		{Options{}, named(sluice.SlidingWindow{Rate: sluice.PerSecond(1)}), sluice.StringKey("k"), "sluice{k}sliding:n", "sluice{k}!n"},
		{Options{}, named(sluice.SlidingCounter{Rate: sluice.PerSecond(1)}), sluice.StringKey("k"), "sluice{k}counter:n", "sluice{k}!n"},
		{Options{}, named(sluice.SlidingLog{Rate: sluice.PerSecond(1)}), sluice.NewKey("a", "b"), "sluice{\x01a\x01b}2log:n", "sluice{\x01a\x01b}2!n"},
		{Options{}, named(sluice.Concurrency{Max: 1}), sluice.Key{}, "sluice{%}0leases:n", "sluice{%}0!n"},
		{
			Options{},
			perClient, sluice.StringKey(strings.Repeat("x", 161)),
			"sluice{%#cUDZznyPJWSvTjAmgG_NxBIngGR0nhELI2INmvJr8AU}:per-client", "",
		},
	} {
		s := store(t, c.o)
		l := s.limits.get(c.l)
		if got := s.stateKey(l, c.k); got != c.state && !strings.HasPrefix(c.state, "sluice{%#") {
			t.Errorf("state of %q: %q, want %q", c.k, got, c.state)
		}
		if got := s.banKey(l, c.k); got != c.ban && c.ban != "" {
			t.Errorf("ban of %q: %q, want %q", c.k, got, c.ban)
		}
	}
	s := store(t, Options{})
	for _, l := range []*sluice.Limit{long, hash} {
		key := s.stateKey(s.limits.get(l), sluice.StringKey("k"))
		if !strings.HasPrefix(key, "sluice{k}:#") || len(key) != len("sluice{k}:#")+22 {
			t.Errorf("limit %q is kept at %q", l.Name(), key)
		}
		window := s.limits.get(sluice.MustLimit(l.Name(), sluice.FixedWindow{Rate: sluice.PerSecond(1)}))
		_, digest, _ := strings.Cut(key, ":")
		if got, want := s.stateKey(window, sluice.StringKey("k")), "sluice{k}fixed:"+digest; got != want {
			t.Errorf("a window of that name is kept at %q, want %q", got, want)
		}
		if got, want := s.banKey(window, sluice.StringKey("k")), "sluice{k}!"+digest; got != want {
			t.Errorf("its ban is kept at %q, want %q", got, want)
		}
	}
}

// TestKeysAreInjective: no two pairs of limit and key share a key of the server, and
// all limits of a key, and their bans, share a slot.
func TestKeysAreInjective(t *testing.T) {
	algorithms := []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerSecond(1)}, sluice.FixedWindow{Rate: sluice.PerSecond(1)}, sluice.SlidingLog{Rate: sluice.PerSecond(1)},
	}
	alphabet := []string{"a", "b", "fixed", "log", "_", ":", "/", "{", "}", "%", "%7D", "%25", "\x00", "\x01", "!", "#", "@", "2", ""}
	r := rand.New(rand.NewPCG(1, 0))
	text := func(most int) string {
		var b strings.Builder
		for range r.IntN(most + 1) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		if r.IntN(50) == 0 {
			b.WriteString(strings.Repeat("y", maxKeyText))
		}
		return b.String()
	}
	for _, o := range []Options{
		{},
		{Secret: []byte("0123456789abcdef")},
		{Tenant: func(k sluice.Key) string {
			return strings.Join(k.Parts(), "")[:min(1, len(strings.Join(k.Parts(), "")))]
		}},
	} {
		s := store(t, o)
		seen := make(map[string]string)
		note := func(key, of string) {
			if before, ok := seen[key]; ok && before != of {
				t.Fatalf("%s and %s are both kept at %q", before, of, key)
			}
			seen[key] = of
		}
		for range soak.Times(t, 20_000) {
			parts := make([]string, r.IntN(4))
			for i := range parts {
				parts[i] = text(3)
			}
			k := sluice.NewKey(parts...)
			name := text(3)
			if name == "" {
				name = "n"
			}
			l := s.limits.get(sluice.MustLimit(name, algorithms[r.IntN(len(algorithms))]))
			of := fmt.Sprintf("%q of %q", name, parts)
			note(s.stateKey(l, k), fmt.Sprintf("the state, of kind %d, of %s", l.params.Kind, of))
			note(s.banKey(l, k), "the ban of "+of)
			if stem := s.names.stem(k); slotOf(stem) != slotOf(s.stateKey(l, k)) || slotOf(stem) != slotOf(s.banKey(l, k)) {
				t.Fatalf("%s: state and ban are in other slots", of)
			}
		}
	}
}

// TestTenantShareASlot: with Options.Tenant all keys of a tenant are in one slot.
func TestTenantShareASlot(t *testing.T) {
	s := store(t, Options{Tenant: func(k sluice.Key) string { return k.Parts()[0] }})
	want := slotOf(s.names.stem(sluice.NewKey("acme", "0")))
	for i := range 100 {
		if got := slotOf(s.names.stem(sluice.NewKey("acme", fmt.Sprint(i)))); got != want {
			t.Fatalf("user %d is in slot %d, another in %d", i, got, want)
		}
	}
}

// TestSecretHidesKeys: with Options.Secret no raw identifier is written.
func TestSecretHidesKeys(t *testing.T) {
	o := Options{Secret: []byte("0123456789abcdef"), Tenant: func(k sluice.Key) string { return k.Parts()[0] }}
	s := store(t, o)
	l := s.limits.get(sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(1)}))
	key := s.stateKey(l, sluice.NewKey("198.51.100.7", "alice@example.com"))
	if strings.Contains(key, "198.51") || strings.Contains(key, "alice") {
		t.Errorf("the key is readable: %q", key)
	}
	o.Secret = []byte("another secret of some length")
	if other := store(t, o); other.stateKey(l, sluice.NewKey("198.51.100.7", "alice@example.com")) == key {
		t.Error("another secret writes the same key")
	}
}

// TestRedisOptionsAreRefused are refused with a remedy.
func TestRedisOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{
		{Prefix: "a{b"}, {Prefix: "}"}, {Prefix: strings.Repeat("p", 129)}, {Secret: []byte("short")},
	} {
		if _, err := New(&fakeClient{}, o); err == nil || !strings.Contains(err.Error(), "give") {
			t.Errorf("%+v: got %v", o, err)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("a store without a client")
	}
}

// TestSecretIsCopied: a caller that wipes the secret after New does not change the keys.
func TestSecretIsCopied(t *testing.T) {
	secret := []byte("0123456789abcdef")
	s, err := New(&fakeClient{}, Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	before := s.names.stem(sluice.StringKey("k"))
	clear(secret)
	if after := s.names.stem(sluice.StringKey("k")); after != before {
		t.Errorf("%q became %q", before, after)
	}
}
