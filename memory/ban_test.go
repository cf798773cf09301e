package memory

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestBannedKeysAreBounded bans more keys than there is room to list: all bans hold, and Unlisted
// counts the bans that are not listed.
func TestBannedKeysAreBounded(t *testing.T) {
	now := int64(start)
	s := open(t, &now, Options{MaxBytes: 2 << 20, Stripes: 8})
	l := lasting("flood", 1)
	ban := &sluice.Ban{After: 1, For: time.Minute}
	const keys = 2000
	key := func(i int) sluice.Key {
		k := numbered(i)
		return sluice.StringKey(k.Text() + strings.Repeat("x", 200))
	}
	denied := func(i int) {
		t.Helper()
		d, err := s.Decide(t.Context(), sluice.Request{Limit: l, Key: key(i), Cost: 2, Ban: ban})
		if err != nil || d.Allowed {
			t.Fatalf("key %d has too few units, so a denial is due: %+v, %v", i, d, err)
		}
	}
	for i := range keys {
		denied(i)
	}
	for i := range keys {
		d, err := s.Decide(t.Context(), sluice.Request{Limit: l, Key: key(i), Ban: ban})
		if err != nil || d.Reason != sluice.ReasonBanned {
			t.Fatalf("key %d: %+v, %v", i, d, err)
		}
	}
	page, err := s.ListBans(t.Context(), sluice.BanQuery{Most: 1000})
	if err != nil || page.Next != "" {
		t.Fatalf("all listed bans should be on one page: got %d, next %q, %v", len(page.Bans), page.Next, err)
	}
	st := s.Stats()
	if n := int64(len(page.Bans)); n < 100 || n+st.Unlisted != keys {
		t.Errorf("%d bans are listed and %d are said not to be, of %d", n, st.Unlisted, keys)
	}
	if most := int64(2<<20) / bannedShare; s.banned.Load() > most {
		t.Errorf("their texts take %d bytes, of %d", s.banned.Load(), most)
	}
	checkInvariants(t, s)

	// Once they have ended and are swept, their texts are dropped too.
	now += time.Minute.Microseconds()
	for i := range 10 * keys {
		take(t, s, l, numbered(i%7), 0)
		now += quickUpkeep
	}
	for i := range s.stripes {
		s.stripes[i].giveUpAll(now)
	}
	if n := s.banned.Load(); n != 0 {
		t.Errorf("%d bytes of texts are left", n)
	}
	checkInvariants(t, s)
	denied(0)
	if page, err := s.ListBans(t.Context(), sluice.BanQuery{}); err != nil || len(page.Bans) != 1 || page.Bans[0].Key != key(0) {
		t.Errorf("only the new ban should be listed: %+v, %v", page, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ListBans(t.Context(), sluice.BanQuery{}); err == nil {
		t.Error("a closed store lists bans")
	}
	checkInvariants(t, s)
}

// TestResetForgetsBannedKeys drops the text together with the ban.
func TestResetForgetsBannedKeys(t *testing.T) {
	now := int64(start)
	s := open(t, &now, Options{})
	l := lasting("l", 1)
	k := sluice.StringKey("someone")
	if err := s.BanKey(t.Context(), l, k, time.Hour); err != nil {
		t.Fatal(err)
	}
	if s.banned.Load() == 0 {
		t.Error("nothing is kept")
	}
	if err := s.Reset(t.Context(), l, k); err != nil {
		t.Fatal(err)
	}
	if n := s.banned.Load(); n != 0 {
		t.Errorf("%d bytes are left after a reset", n)
	}
	checkInvariants(t, s)
}

// TestBansDoNotAllocate: checking a ban, counting a denial and refusing a key make no garbage.
func TestBansDoNotAllocate(t *testing.T) {
	now := int64(start)
	s := open(t, &now, Options{})
	r := sluice.Request{Limit: lasting("l", 1), Key: sluice.StringKey("k"), Cost: 1, Ban: &sluice.Ban{
		After: 50, For: time.Hour, Escalate: []time.Duration{2 * time.Hour}, Prolong: true,
	}}
	reasons := map[sluice.Reason]int{}
	decide := func() {
		d, err := s.Decide(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		reasons[d.Reason]++
	}
	if n := testing.AllocsPerRun(40, decide); n > 0 {
		t.Errorf("%v allocations for a denial", n)
	}
	for range 20 {
		decide()
	}
	if n := testing.AllocsPerRun(40, decide); n > 0 {
		t.Errorf("%v allocations for a ban", n)
	}
	if reasons[sluice.ReasonLimited] < 30 || reasons[sluice.ReasonBanned] < 30 {
		t.Errorf("decided %v", reasons)
	}
}
