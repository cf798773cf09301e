package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// reset: a reset forgets the used units of one limit and one key.
func reset(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l, other := s.full(c), limit("other", c.algorithm)
		neighbor := sluice.StringKey("198.51.100.7")
		s.take(l, neighbor, capacity)
		s.take(other, key, capacity)
		s.reset(l, key)
		if v := s.view(l, key); v != s.view(l, sluice.StringKey("never seen")) {
			s.Errorf("a key that was reset is not as a fresh one: %+v", v)
		}
		s.remaining(l, neighbor, 0, "another key")
		s.remaining(other, key, 0, "another limit")
		s.reset(l, sluice.StringKey("never seen")) // is not an error
		s.allowed(s.take(l, key, capacity), "the whole capacity again")
	})
	s.Run("charge", func(t *testing.T) {
		s := s.suite.subject(t)
		for _, c := range only(func(c sample) bool { return !c.lease && !c.paced }) {
			l := named(c)
			charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 3})
			s.reset(l, key)
			s.cancel(charge)
			s.remaining(l, key, capacity, "%s: a charge from before a reset, canceled", c.name)
			s.settle(charge, 0)
			s.remaining(l, key, capacity, "%s: a charge from before a reset, settled", c.name)
		}
	})
}

// keys: keys of different parts count separately, whatever bytes they hold. Equal keys count
// together, however they were made.
func keys(s *subject) {
	l := limit("keys", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	pieces := []string{"", "a", "b", ":", "_", "/", "{", "}", "{a}", "\x00", "\x01", "\x01a", "é", "a:b", " ", "%", "*", "\r\n", "\xff"}
	seen := make(map[sluice.Key]string)
	try := func(parts ...string) {
		s.Helper()
		k := sluice.NewKey(parts...)
		if other, ok := seen[k]; ok {
			s.Fatalf("the key of %q is that of %s", parts, other)
		}
		seen[k] = strings.Join(parts, "|")
		s.allowed(s.take(l, k, 1), "the first unit of %q", parts)
		s.denied(s.take(l, k, 1), sluice.ReasonLimited, "the second unit of %q", parts)
	}
	try()
	for _, a := range pieces {
		try(a)
		for _, b := range pieces {
			try(a, b)
		}
	}
	try("a", "b", "c")
	try("a", "", "b")
	try("", "a", "b")
	try("a", "b", "")
	try("", "", "")
	try(strings.Repeat("x", 100_000))
	try(strings.Repeat("x", 100_001))
	try(strings.Repeat("x", 300), "y")
	for k := range seen {
		text := k.Text()
		s.denied(s.take(l, sluice.EncodedKey(strings.Clone(text), k.Len()), 1), sluice.ReasonLimited, "the same key, encoded")
	}
	s.denied(s.take(l, sluice.Key{}, 1), sluice.ReasonLimited, "the zero key, which is that of no parts")
	encoded := sluice.AppendKeyPart(sluice.AppendKeyPart(nil, "a"), "b")
	s.denied(s.take(l, sluice.EncodedKey(string(encoded), 2), 1), sluice.ReasonLimited, "a key of two parts, encoded by its caller")
	// A reset of one key resets no other key.
	s.reset(l, sluice.NewKey("a", "b"))
	s.allowed(s.take(l, sluice.NewKey("a", "b"), 1), "the key that was reset")
	s.denied(s.take(l, sluice.StringKey("a:b"), 1), sluice.ReasonLimited, "one that looks like it")
}

// names: limits of different names count separately, and limits of one name count together. A
// limit without a name is identified by its numbers.
func names(s *subject) {
	bucket := sluice.FixedWindow{Rate: sluice.PerHour(1)}
	a, b := limit("a", bucket), limit("b", bucket)
	s.allowed(s.take(a, key, 1), "the unit of a")
	s.allowed(s.take(b, key, 1), "the unit of b")
	s.denied(s.take(limit("a", bucket), key, 1), sluice.ReasonLimited, "a, made again")
	s.allowed(s.take(limit("", bucket), key, 1), "the unit of one without a name")
	s.denied(s.take(limit("", bucket), key, 1), sluice.ReasonLimited, "the same numbers without a name")
	s.allowed(s.take(limit("", sluice.FixedWindow{Rate: sluice.PerHour(2)}), key, 2), "other numbers without a name")
	// The end of a name and the start of a key stay separate.
	s.allowed(s.take(limit("ab", bucket), sluice.StringKey("c"), 1), "the unit of ab and c")
	s.allowed(s.take(limit("a", bucket), sluice.StringKey("bc"), 1), "the unit of a and bc")
	s.allowed(s.take(limit("a", bucket), sluice.NewKey("b", "c"), 1), "the unit of a, b and c")
	for _, name := range []string{"{a}", "a:b", "", "a b", "\x00", "é", strings.Repeat("n", 1000)} {
		l := limit(name, sluice.TokenBucket{Rate: sluice.Every(time.Hour), Burst: 1})
		s.allowed(s.take(l, key, 1), "the unit of %q", name)
		s.denied(s.take(l, key, 1), sluice.ReasonLimited, "the second unit of %q", name)
	}
}
