package decisions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestBansEqualMemory: whatever the terms, and when they change, both stores ban the same
// keys for the same times, whatever the algorithm of the request.
func TestBansEqualMemory(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	const steps = 150
	banned, prolonged := 0, 0
	for seed := range uint64(40) {
		d := a.duel(t, seed, fixedWindow)
		d.limits = []*sluice.Limit{
			sluice.MustLimit("duel", sluice.FixedWindow{Rate: sluice.PerSecond(2)}),
			sluice.MustLimit("duel", sluice.FixedWindow{Rate: sluice.Per(1, 7*time.Second)}),
			sluice.MustLimit("duel", sluice.SlidingCounter{Rate: sluice.Per(1, 3*time.Second)}),
			sluice.MustLimit("duel", sluice.TokenBucket{Rate: sluice.Per(1, 5*time.Second)}),
		}
		d.bans = []*sluice.Ban{nil}
		for range 1 + d.rnd.IntN(3) {
			d.bans = append(d.bans, d.ban())
		}
		for range steps {
			switch d.rnd.IntN(10) {
			case 0:
				d.batch()
			case 1, 2, 3:
				d.now += d.one(1, 20, 100_000, 1_000_000, 1+d.rnd.Int64N(30_000_000), d.retry, d.retry-1, 1+d.rnd.Int64N(300_000_000))
			case 4:
				if d.rnd.IntN(6) == 0 {
					d.reset(d.limit(), d.key())
				}
			default:
				r := d.request()
				r.Cost, r.Floor = 1+d.rnd.Int64N(2), 0
				if d.decide(r).Reason == sluice.ReasonBanned {
					banned++
					if r.Ban.Prolong && !r.Peek {
						prolonged++
					}
				}
			}
			if t.Failed() {
				return
			}
		}
	}
	if banned < 100 || prolonged < 20 {
		t.Errorf("only %d attempts were banned, %d prolonged a ban", banned, prolonged)
	}
}

// ban makes up terms.
func (d *duel) ban() *sluice.Ban {
	if d.rnd.IntN(8) == 0 {
		return &sluice.Ban{}
	}
	some := func() time.Duration {
		return time.Duration(d.one(1000, 1+d.rnd.Int64N(40_000), 1000*d.rnd.Int64N(40))+1) * time.Millisecond
	}
	b := &sluice.Ban{After: d.one(1, 1, 2, 3, 5), For: some(), Prolong: d.rnd.IntN(3) == 0}
	if d.rnd.IntN(2) == 0 {
		b.Within = some()
	}
	if d.rnd.IntN(3) > 0 {
		for range 1 + d.rnd.IntN(4) {
			b.Escalate = append(b.Escalate, some())
		}
		b.Forget = time.Duration(d.one(0, 0, 1+d.rnd.Int64N(100))) * time.Second
	}
	return b
}

// TestBansExpire: a ban is kept until it is over and no longer one in a row.
func TestBansExpire(t *testing.T) {
	a := newArena(t)
	for _, c := range []struct {
		ban  sluice.Ban
		want time.Duration
	}{
		{sluice.Ban{After: 1, For: 10 * time.Second}, 10 * time.Second},
		{sluice.Ban{After: 2, Within: 7 * time.Second, For: time.Hour}, 7 * time.Second},
		{sluice.Ban{After: 1, For: 10 * time.Second, Escalate: []time.Duration{time.Minute}}, 70 * time.Second},
		{sluice.Ban{After: 1, For: 10 * time.Second, Escalate: []time.Duration{time.Minute}, Forget: 500 * time.Millisecond}, 11 * time.Second},
	} {
		d := a.duel(t, 1, fixedWindow)
		l := sluice.MustLimit("duel", sluice.FixedWindow{Rate: sluice.PerDay(1)})
		d.decide(sluice.Request{Limit: l, Key: d.keys[0], Cost: 1})
		before := a.clock(t)
		d.decide(sluice.Request{Limit: l, Key: d.keys[0], Cost: 1, Ban: &c.ban})
		after := a.clock(t)
		least, most := a.lifetime(t, "duel-*{a}!duel", before, after)
		if most < c.want || least > c.want+25*time.Millisecond {
			t.Errorf("%+v is kept for %v to %v, want %v", c.ban, least, most, c.want)
		}
		if err := d.redis.Reset(t.Context(), l, d.keys[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBansByHandEqualMemory: bans by hand among bans by denials, with any terms.
func TestBansByHandEqualMemory(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for seed := range uint64(20) {
		d := a.duel(t, seed, fixedWindow)
		d.limits = []*sluice.Limit{sluice.MustLimit("duel", sluice.FixedWindow{Rate: sluice.PerSecond(2)})}
		d.bans = []*sluice.Ban{{}, d.ban(), d.ban()}
		for range 150 {
			k := d.key()
			switch d.rnd.IntN(8) {
			case 0:
				length := time.Duration(1+d.rnd.Int64N(20_000_000))*time.Microsecond + time.Millisecond
				d.note("ban %q for %v", k.Text(), length)
				err, wantErr := d.redis.BanKey(t.Context(), d.limits[0], k, length), d.memory.BanKey(t.Context(), d.limits[0], k, length)
				d.compare(sluice.Decision{}, sluice.Decision{}, err, wantErr)
			case 1:
				if d.rnd.IntN(3) > 0 {
					continue
				}
				d.note("lift the ban of %q", k.Text())
				found, err := d.redis.LiftBan(t.Context(), d.limits[0], k)
				want, wantErr := d.memory.LiftBan(t.Context(), d.limits[0], k)
				d.compare(sluice.Decision{Allowed: found}, sluice.Decision{Allowed: want}, err, wantErr)
			case 2, 3:
				d.now += d.one(1, 1_000_000, 1+d.rnd.Int64N(30_000_000), d.retry, d.retry-1)
			default:
				r := d.request()
				r.Cost, r.Floor = 1+d.rnd.Int64N(2), 0
				d.decide(r)
			}
			want, got := listedBans(t, d.memory), listedBans(t, d.redis)
			if fmt.Sprint(want) != fmt.Sprint(got) {
				t.Fatalf("redis lists %v\nmemory lists %v\nafter:\n%s", got, want, strings.Join(d.steps[max(0, len(d.steps)-20):], "\n"))
			}
		}
	}
}

// listedBans returns the bans of a store by key.
func listedBans(t *testing.T, b sluice.Banner) map[string]sluice.BannedKey {
	t.Helper()
	bans, _ := allBans(t, b)
	byKey := map[string]sluice.BannedKey{}
	for _, b := range bans {
		byKey[b.Limit+" "+b.Key.Text()] = b
	}
	return byKey
}
