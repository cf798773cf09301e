package redisstore

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

// FuzzParseBan reads back whose a ban is, whatever the texts.
func FuzzParseBan(f *testing.F) {
	for _, text := range []string{"", "%", "}", "%7D", "%25", "{a}!b:c", "a!b", "1", "\x00\xff", "%#x", "%!x", strings.Repeat("x", 161)} {
		f.Add(text, "api", 1, "")
		f.Add(text, "a}!b", 2, "t}")
	}
	f.Fuzz(func(t *testing.T, text, limit string, parts int, tenant string) {
		if limit == "" {
			return // is named otherwise
		}
		l, err := sluice.NewLimit(limit, sluice.TokenBucket{Rate: sluice.PerSecond(1)})
		if err != nil {
			return
		}
		n := names{prefix: "p!"}
		if tenant != "" {
			n.tenant = func(sluice.Key) string { return tenant }
		}
		k := sluice.EncodedKey(text, parts)
		b, ok := n.parseBan(n.stem(k) + "!" + suffix(l))
		if !ok || b.Limit != suffix(l) {
			t.Fatalf("%q is read as %+v, %t", n.stem(k), b, ok)
		}
		if long := len(text) > maxKeyText; long != (b.Digest != "") || !long && b.Key != k {
			t.Errorf("%q became %+v, want %+v", n.stem(k), b, k)
		}
		if _, ok := n.parseBan(n.stem(k) + ":" + suffix(l)); ok {
			t.Error("a state is read as a ban")
		}
	})
}

// TestEachSlotHasAKey: there is a key for each slot.
func TestEachSlotHasAKey(t *testing.T) {
	for slot := range slots {
		if key := slotKey(slot); int(slotOf(key)) != slot {
			t.Fatalf("%q is in slot %d, not in %d", key, slotOf(key), slot)
		}
	}
}

// TestScanGoesThroughAllMasters: one after the other, also if they change meanwhile.
func TestScanGoesThroughAllMasters(t *testing.T) {
	client := &fakeClient{masters: []Master{{Slot: 9000}, {Slot: 0}, {Slot: 4000}}}
	var scanned []uint16
	client.scan = func(key string, cursor uint64) ([]string, uint64, error) {
		scanned = append(scanned, slotOf(key))
		return []string{key}, (cursor + 7) % 14, nil
	}
	s, err := New(client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	page := func(from string) string {
		t.Helper()
		keys, next, err := s.scan(t.Context(), from, "*", 10)
		if err != nil || len(keys) != 1 || !isCursor(next) {
			t.Fatalf("scan from %q: keys %q, next %q, %v; want one key", from, keys, next, err)
		}
		return next
	}
	next := page("")
	next = page(next)
	next = page(next)
	client.masters = []Master{{Slot: 0}, {Slot: 4500}, {Slot: 9000}} // one has failed over, and slots have moved
	for next = page(next); next != ""; {
		next = page(next)
	}
	if want := []uint16{0, 0, 4000, 4000, 4500, 4500, 9000, 9000}; !slices.Equal(scanned, want) {
		t.Errorf("scanned slots %d, want %d", scanned, want)
	}
	client.errSHA = errors.New("no")
	if _, _, err := s.scan(t.Context(), "", "*", 10); !errors.Is(err, client.errSHA) {
		t.Errorf("without masters: %v", err)
	}
	for _, from := range []string{"x", "1", "1/", "/1", "-1/0", "16384/0", "0/-1"} {
		if isCursor(from) {
			t.Errorf("%q is taken for a cursor", from)
		}
	}
}

// TestListOfBansFails with the server's error, which names the list.
func TestListOfBansFails(t *testing.T) {
	for _, err := range []error{&ServerError{Text: "NOPERM this user has no permissions to run the 'scan' command"}, errors.New("broken pipe")} {
		s, newErr := New(&fakeClient{errSHA: err}, Options{})
		if newErr != nil {
			t.Fatal(newErr)
		}
		_, got := s.ListBans(t.Context(), sluice.BanQuery{})
		if !errors.Is(got, err) || !strings.HasPrefix(got.Error(), "redisstore: ") || errors.Is(got, sluice.ErrUnknownOutcome) {
			t.Errorf("the list: %v", got)
		}
	}
}
