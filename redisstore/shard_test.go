package redisstore

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
)

// thirds are three masters with a third of the slots each.
func thirds(names ...string) []Master {
	var all []Master
	for i, name := range names {
		first, last := i*slots/len(names), (i+1)*slots/len(names)-1
		all = append(all, Master{Address: name, Slot: first, Ranges: []SlotRange{{first, last}}})
	}
	return all
}

// Shards are the masters, and keep their numbers when replicas take over and slots move.
func TestShardsKeepTheirNumbers(t *testing.T) {
	first := numberShards(nil, thirds("a", "b", "c"))
	for _, want := range []struct{ slot, shard int }{{0, 0}, {5460, 0}, {5461, 1}, {10921, 1}, {10922, 2}, {16383, 2}} {
		if got := first[want.slot]; int(got) != want.shard {
			t.Errorf("slot %d is in shard %d, want %d", want.slot, got, want.shard)
		}
	}
	// A replica of b has taken over, and the masters come in another order.
	m := thirds("a", "d", "c")
	m[0], m[1], m[2] = m[2], m[0], m[1]
	if *numberShards(first, m) != *first {
		t.Error("a takeover changed the numbers")
	}
	// A fourth master gets some slots of each.
	m = thirds("a", "b", "c")
	d := Master{Address: "d"}
	for i := range m {
		r := &m[i].Ranges[0]
		r.Last -= 1000
		d.Ranges = append(d.Ranges, SlotRange{r.Last + 1, r.Last + 1000})
	}
	four := numberShards(first, append([]Master{d}, m...))
	shards := map[uint16]int{}
	for slot, n := range four {
		shards[n]++
		if slot%5462 < 4000 && slot < 15000 && n != first[slot] {
			t.Fatalf("slot %d moved from shard %d to %d", slot, first[slot], n)
		}
	}
	if len(shards) != 4 || shards[0]+shards[1]+shards[2]+shards[3] != slots {
		t.Errorf("four masters are %v", shards)
	}
	// Slots that nobody has, or that do not exist, do no harm.
	odd := numberShards(four, []Master{{Ranges: []SlotRange{{-5, 10}, {16000, 20000}}}})
	if odd[0] != odd[16383] {
		t.Errorf("shards %d and %d of one master", odd[0], odd[16383])
	}
}

// Shard looks the masters up in the background, and soon after a call that got no reply.
func TestShardLooksMastersUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{masters: thirds("a", "b", "c"), errSHA: errors.New("nobody answers")}
		s, err := New(c, Options{Cluster: true})
		if err != nil {
			t.Fatal(err)
		}
		shardsOf := func() int {
			seen := map[int]bool{}
			for i := range 100 {
				seen[s.Shard(sluice.StringKey(fmt.Sprint(i)))] = true
			}
			synctest.Wait()
			return len(seen)
		}
		if n := shardsOf(); n != 1 {
			t.Errorf("%d shards before the first look", n)
		}
		c.errSHA = nil
		<-time.After(lookSoon)
		shardsOf()
		if n := shardsOf(); n != 3 {
			t.Errorf("%d shards after a look, want 3", n)
		}
		c.masters = thirds("a", "b", "c", "d")
		c.errSHA = errors.New("no reply")
		if _, err := s.Decide(t.Context(), request(samples()[0])); !errors.Is(err, sluice.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		c.errSHA = nil
		<-time.After(lookSoon)
		shardsOf()
		if n := shardsOf(); n != 4 {
			t.Errorf("%d shards soon after a call without a reply, want 4", n)
		}
	})
}

// The slot of a key is the slot of its keys in the server.
func TestSlotOfKey(t *testing.T) {
	for name, o := range map[string]Options{
		"plain": {}, "secret": {Secret: []byte("0123456789abcdef")}, "prefix": {Prefix: "other"},
		"tenant": {Tenant: func(k sluice.Key) string { return k.Parts()[0] }},
	} {
		o.Cluster = true
		s, err := New(&fakeClient{}, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", "a", "192.0.2.1", "}", "%", "{x}y", string(make([]byte, 300))} {
			for _, k := range []sluice.Key{sluice.StringKey(text), sluice.NewKey(text, "second")} {
				if got, want := s.names.slot(k), slotOf(s.names.stem(k)); got != want {
					t.Errorf("%s: the slot of %q is %d, want %d", name, k.Text(), got, want)
				}
			}
		}
	}
	s, err := New(&fakeClient{}, Options{Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	k := sluice.StringKey("192.0.2.1")
	s.Shard(k)
	if n := testing.AllocsPerRun(100, func() { s.Shard(k) }); n != 0 {
		t.Errorf("Shard allocates %v times", n)
	}
}
