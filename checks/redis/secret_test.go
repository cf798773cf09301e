package redis

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
)

// TestSecretHidesKeysInAllOfRedis makes every kind of state: of all algorithms, leases, denials, bans and grants. With a secret,
// nothing that Redis holds contains an identifier. Without one, it does.
func TestSecretHidesKeysInAllOfRedis(t *testing.T) {
	t.Parallel()
	const user, tenant = "alice@example.com", "tenant-of-alice"
	key := sluice.NewKey(tenant, user)
	for name, secret := range map[string][]byte{"with a secret": []byte("0123456789abcdef"), "without": nil} {
		server := redistest.Start(t)
		o := redisstore.Options{Secret: secret, Tenant: func(k sluice.Key) string { return k.Parts()[0] }}
		s := adapters.Rueidis.Open(t, adapters.To(server.Addr()), o)
		ctx := redistest.Within(t, redistest.Soon)
		for i, a := range []sluice.Algorithm{
			sluice.TokenBucket{Rate: sluice.PerHour(1)},
			sluice.LeakyBucket{Rate: sluice.PerHour(1), Queue: 1},
			sluice.FixedWindow{Rate: sluice.PerHour(1)},
			sluice.FixedWindow{Rate: sluice.PerHour(1), Opened: true},
			sluice.SlidingWindow{Rate: sluice.PerHour(1)},
			sluice.SlidingCounter{Rate: sluice.PerHour(1)},
			sluice.SlidingLog{Rate: sluice.PerHour(1)},
			sluice.Concurrency{Max: 1, TTL: time.Hour},
		} {
			l, ban := sluice.MustLimit(fmt.Sprint("limit ", i), a), &sluice.Ban{After: 2, For: time.Hour}
			for n := range 3 { // the second is denied, and the third leads to a ban, if the queue has no room
				if _, err := s.Decide(ctx, sluice.Request{Limit: l, Key: key, Cost: 1, Member: uint64(10*i + n + 1), Ban: ban}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.BanKey(ctx, sluice.MustLimit("by hand", sluice.TokenBucket{Rate: sluice.PerHour(1)}), key, time.Hour); err != nil {
			t.Fatal(err)
		}
		granted, err := sluice.MustLimit("hybrid", sluice.TokenBucket{Rate: sluice.PerHour(100)}).WithHybrid(sluice.Hybrid{Stranded: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		out := make([]driver.Grant, 1)
		if s.Grant(ctx, 1, []driver.Claim{{Limit: granted, Key: key, Seq: 1, Want: 5}}, out); out[0].Err != nil || out[0].Units == 0 {
			t.Fatalf("the claim got no units: %+v", out[0])
		}
		held := everything(t, server)
		for _, raw := range []string{user, tenant} {
			if found := bytes.Contains(held, []byte(raw)); found != (secret == nil) {
				t.Errorf("%s: Redis holds %q: %v", name, raw, found)
			}
		}
	}
}

// everything returns the bytes of all keys and values of a server.
func everything(t *testing.T, server *redistest.Server) []byte {
	t.Helper()
	ctx := redistest.Within(t, redistest.Soon)
	for _, command := range [][]string{{"CONFIG", "SET", "rdbcompression", "no"}, {"SAVE"}} {
		if _, err := server.Do(ctx, command...); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := server.Do(ctx, "CONFIG", "GET", "dir")
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.ReadFile(filepath.Join(folder.([]any)[1].(string), "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	return held
}
