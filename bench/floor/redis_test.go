package floor

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/checks/redistest"
)

// connect starts a server for a test, with a client of each library.
func connect(t *testing.T) (*redistest.Server, rueidis.Client, *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	g := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, c, g
}

// TestMinimalLimits checks that the minimal script is a limit: it admits its burst, then denies, and
// reports what remains and when to retry. Its states expire.
func TestMinimalLimits(t *testing.T) {
	server, c, g := connect(t)
	const burst = 3
	m, err := NewMinimal(t.Context(), c, time.Hour, burst)
	if err != nil {
		t.Fatal(err)
	}
	mg, err := NewMinimalGo(t.Context(), g, time.Hour, burst)
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]interface {
		Take(ctx context.Context, key string) (bool, error)
	}{"rueidis": m, "go-redis": mg} {
		for n := range 2 * burst {
			admitted, err := l.Take(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if want := n < burst; admitted != want {
				t.Errorf("%s: request %d: admitted is %v, want %v", name, n+1, admitted, want)
			}
		}
	}
	ttl, err := server.Int(t.Context(), "PTTL", "rueidis")
	if err != nil {
		t.Fatal(err)
	}
	const full = burst * 3_600_000
	if ttl > full || ttl < full-60_000 {
		t.Errorf("a used-up key lives %d ms, want about %d", ttl, full)
	}
	reply, err := m.script.run(t.Context(), []string{"rueidis"}, m.args).AsIntSlice()
	if err != nil {
		t.Fatal(err)
	}
	hour := time.Hour.Microseconds()
	if len(reply) != 4 || reply[0] != 0 || reply[1] != 0 ||
		reply[2] > hour || reply[2] < hour*9/10 || reply[3] > burst*hour || reply[3] < burst*hour*9/10 {
		t.Errorf("a denial replies %d", reply)
	}
	reply, err = m.script.run(t.Context(), []string{"new"}, m.args).AsIntSlice()
	if want := []int64{1, burst - 1, 0, hour}; err != nil || !slices.Equal(reply, want) {
		t.Errorf("an admission replies %d %v, want %d", reply, err, want)
	}
}

// TestMinimalRefills checks that units come back with the server's time.
func TestMinimalRefills(t *testing.T) {
	_, c, _ := connect(t)
	m, err := NewMinimal(t.Context(), c, time.Millisecond, 1)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	admitted := 0
	for admitted < 10 && time.Since(start) < time.Minute {
		ok, err := m.Take(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			admitted++
		}
	}
	if most := int(time.Since(start)/time.Millisecond) + 2; admitted < 10 || admitted > most {
		t.Errorf("admitted %d, want from 10 to %d", admitted, most)
	}
}

func TestReturn1AdmitsAll(t *testing.T) {
	server, c, _ := connect(t)
	r, err := NewReturn1(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if admitted, err := r.Take(t.Context(), "key"); err != nil || !admitted {
			t.Fatalf("got %v %v", admitted, err)
		}
	}
	if n, err := server.Int(t.Context(), "DBSIZE"); err != nil || n != 0 {
		t.Errorf("%d keys are kept, error %v", n, err)
	}
}

func TestBatchWritesFourStates(t *testing.T) {
	server, c, _ := connect(t)
	b, err := NewBatch(t.Context(), c, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if admitted, err := b.Take(t.Context(), "key"); err != nil || !admitted {
			t.Fatalf("got %v %v", admitted, err)
		}
	}
	if n, err := server.Int(t.Context(), "DBSIZE"); err != nil || n != 4 {
		t.Errorf("%d keys are kept, error %v", n, err)
	}
	if found, err := server.KeysWithoutTTL(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("without a TTL: %q, error %v", found, err)
	}
}

// TestRedisFloorsReportErrors checks that a dead server is an error, and admits nothing.
func TestRedisFloorsReportErrors(t *testing.T) {
	server, c, g := connect(t)
	m, err1 := NewMinimal(t.Context(), c, time.Hour, 1)
	mg, err2 := NewMinimalGo(t.Context(), g, time.Hour, 1)
	r, err3 := NewReturn1(t.Context(), c)
	b, err4 := NewBatch(t.Context(), c, time.Hour)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]interface {
		Take(ctx context.Context, key string) (bool, error)
	}{"minimal": m, "minimal, go-redis": mg, "return 1": r, "batch": b} {
		if admitted, err := l.Take(t.Context(), "key"); err == nil || admitted {
			t.Errorf("%s: admitted is %v, error %v", name, admitted, err)
		}
	}
}
