package resp

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/pipeline"
)

// distant is a store that is called for every request.
type distant struct {
	sluice.Store
	mu    sync.Mutex
	calls int
}

func (d *distant) count() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
}

func (d *distant) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	d.count()
	return d.Store.Decide(ctx, r)
}

func (d *distant) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	d.count()
	return d.Store.DecideAll(ctx, rs, out)
}

func (d *distant) DecideLocally(sluice.Request) (decision sluice.Decision, ok bool) {
	return decision, false
}

func (d *distant) DecideAllLocally([]sluice.Request, []sluice.Decision) bool { return false }

const severalRules = `rules:
  - {name: one, key: client_ip, limit: {algorithm: token_bucket, rate: 3/d}, ban: {after: 2, for: 1h}}
  - name: two
    key: client_ip
    limits: [{name: a, algorithm: fixed_window, rate: 4/d}, {name: b, algorithm: sliding_log, rate: 5/d}]
  - {name: jobs, key: global, limit: {algorithm: concurrency, max: 1, ttl: 1h}}
`

// serveDistant starts a server over a store that must be called. Its clients need the token "secret".
func serveDistant(tb testing.TB) (s *service, store *distant) {
	tb.Helper()
	store = &distant{}
	s = serve(tb, severalRules, func(o *Options) {
		store.Store = o.Decider.Store()
		d, err := policy.NewDecider(o.Decider.Policy(), store)
		if err != nil {
			tb.Fatal(err)
		}
		o.Decider, o.Pipelines = d, pipeline.New(store, 1024, false)
		tb.Cleanup(o.Pipelines.Close)
		o.Verify = func(token string) (known, decides bool) { return token == "secret", token == "secret" }
	})
	return s, store
}

// Commands that arrive together share calls of the store.
func TestPipelinesShareCalls(t *testing.T) {
	s, store := serveDistant(t)
	c := s.dial()
	c.do("AUTH", "secret")
	var all strings.Builder
	for i := range 32 {
		all.WriteString(encode("CL.THROTTLE", fmt.Sprint("key", i%16), "1", "1", "86400"))
	}
	c.send(all.String())
	for i := range 32 {
		want := "[0 2 1 -1 86400]"
		if i >= 16 {
			want = "[0 2 0 -1 172800]"
		}
		if got := c.reply(); got != want {
			t.Errorf("command %d: %s, want %s", i, got, want)
		}
	}
	if store.calls > 4 { // the commands may arrive in parts
		t.Errorf("%d calls of the store for 32 commands", store.calls)
	}
}

// The commands of a transaction share calls of the store.
func TestTransactionsShareCalls(t *testing.T) {
	s, store := serveDistant(t)
	c := s.dial()
	c.do("AUTH", "secret")
	c.do("MULTI")
	for i := range 32 {
		c.do("CL.THROTTLE", fmt.Sprint("key", i%16), "1", "1", "86400")
	}
	if store.calls != 0 {
		t.Errorf("%d calls of the store before EXEC", store.calls)
	}
	want := "[" + strings.Repeat("[0 2 1 -1 86400] ", 16) + strings.Repeat("[0 2 0 -1 172800] ", 15) + "[0 2 0 -1 172800]]"
	if got := c.do("EXEC"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if store.calls > 2 {
		t.Errorf("%d calls of the store for 32 commands", store.calls)
	}
}

// TestPipelinesReplyInOrder gives random commands in pipelines, over a store that must be called. A server
// that decides in place sends the same bytes, and has the same verdicts.
func TestPipelinesReplyInOrder(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		far, _ := serveDistant(t)
		near := serve(t, severalRules, func(o *Options) {
			o.Verify = func(token string) (known, decides bool) { return token == "secret", token == "secret" }
		})
		var all strings.Builder
		for range 400 {
			ip := fmt.Sprintf("192.0.2.%d", rnd.IntN(4))
			kind := rnd.IntN(10) // mostly decisions
			if rnd.IntN(8) == 0 {
				kind = rnd.IntN(21)
			}
			all.WriteString([]string{
				encode("CL.THROTTLE", "k"+ip, "5", "1", "86400", fmt.Sprint(rnd.IntN(3))),
				encode("CL.THROTTLE", "k"+ip, fmt.Sprint(rnd.IntN(9)), fmt.Sprint(rnd.IntN(3)), "86400"),
				encode("SLUICE.CHECK", "one", ip), encode("SLUICE.CHECK", "one", ip, "PEEK"), encode("SLUICE.CHECK", "two", ip, "COST", "2"),
				encode("SLUICE.CHECK", "two", ip), encode("SLUICE.CHECK", "jobs"), encode("SLUICE.CHECK", "none"), encode("SLUICE.CHECK", "one"),
				encode("CL.THROTTLE", "k"), encode("PING", ip), encode("HELLO", fmt.Sprint(2+rnd.IntN(2))), encode("GET", "x"), encode("SELECT", "0"),
				encode("AUTH", []string{"secret", "wrong"}[rnd.IntN(2)]), encode("RESET") + encode("AUTH", "secret"),
				encode("CLIENT", "SETNAME", "n"+fmt.Sprint(rnd.IntN(9))), encode("CLIENT", "GETNAME"),
				encode("MULTI"), encode("EXEC"), encode("DISCARD"),
			}[kind])
		}
		text := encode("AUTH", "secret") + all.String() + encode("CL.THROTTLE", "last", "1", "1", "1") + encode("QUIT") + encode("PING")
		got, want := far.exchange(text, rnd), near.exchange(text, nil)
		if got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("seed %d, from byte %d:\n%.300q, want\n%.300q", seed, at, got[max(0, at-50):], want[max(0, at-50):])
		}
		if got, want := strings.Join(far.seen(), "\n"), strings.Join(near.seen(), "\n"); got != want {
			t.Fatalf("seed %d: the verdicts are\n%s\nwant\n%s", seed, got, want)
		}
	}
}

// exchange sends text, in parts if there is a source of random numbers, and returns all that comes until the server
// closes the connection.
func (s *service) exchange(text string, rnd *rand.Rand) string {
	s.tb.Helper()
	c := s.dial()
	defer c.Close()
	go func() {
		for len(text) > 0 {
			n := len(text)
			if rnd != nil {
				n = min(n, 1+rnd.IntN(4000))
			}
			if _, err := io.WriteString(c, text[:n]); err != nil {
				return // the server has closed the connection
			}
			text = text[n:]
		}
	}()
	all, err := io.ReadAll(c)
	if err != nil {
		s.tb.Error(err)
	}
	// The identity of the connection is the only difference.
	return strings.ReplaceAll(string(all), "$2\r\nid\r\n:1\r\n", "")
}
