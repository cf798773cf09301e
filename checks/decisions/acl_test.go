package decisions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
)

// aclServer runs a server of which clients need a user.
func aclServer(t *testing.T, opts ...redistest.Option) *redistest.Server {
	t.Helper()
	return redistest.Start(t, append(opts, redistest.ACL("user default off"))...)
}

// TestLeastPrivilege does all that a store does as the user that the documentation shows, over
// TLS and over a Unix socket; and the check at the start.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := aclServer(t, redistest.TLS())
	own := adapters.SetUser(t, s, "own", adapters.DocumentedUser(t, "sluice"))
	overTLS, overSocket := own, adapters.ToSocket(s).As("own")
	overTLS.Addrs, overTLS.TLS = []string{s.TLSAddr()}, s.TLSConfig()
	for name, route := range map[string]adapters.Route{"TLS": overTLS, "a Unix socket": overSocket} {
		if err := walk(t, route, 2000); err != nil {
			t.Errorf("over %s: %v", name, err)
		}
	}
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		t.Parallel()
		store := a.Open(t, own, redisstore.Options{})
		if r, err := store.Check(t.Context()); err != nil || len(r.Warnings) > 0 {
			t.Errorf("the check returns %+v, %v", r, err)
		}
		other := a.Open(t, own, redisstore.Options{Prefix: "another"})
		if _, err := other.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("keys of another prefix: %v", err)
		}
	})
}

// noPermission is what a server replies: to a command, and about one in a script, Redis 7.0
// and later ones with Valkey.
var noPermission = regexp.MustCompile("^(NOPERM|(ERR )?The user executing the script can't run this command|(ERR )?ACL failure in script)")

// TestLeastPrivilegeIsLeast takes each command from the user in turn: something that
// the store does is refused then, and says so.
func TestLeastPrivilegeIsLeast(t *testing.T) {
	t.Parallel()
	s := aclServer(t)
	words := adapters.DocumentedUser(t, "sluice")
	if err := walk(t, adapters.SetUser(t, s, "all", words), 2000); err != nil {
		t.Fatalf("with all commands: %v", err)
	}
	for i, word := range words {
		if !strings.HasPrefix(word, "+") {
			continue
		}
		t.Run(word, func(t *testing.T) {
			// A script that is refused between two writes may leave a part of a state.
			do(t, s, "FLUSHALL")
			do(t, s, "SCRIPT", "FLUSH") // a server that has the scripts needs no EVAL
			err := walk(t, adapters.SetUser(t, s, "less", slices.Delete(slices.Clone(words), i, i+1)), 2000)
			var answer *redisstore.ServerError
			if !errors.As(err, &answer) || !noPermission.MatchString(answer.Text) {
				t.Errorf("without it: %v", err)
			}
		})
	}
}

// walk does all that a store does, at random but alike each time, until it fails.
func walk(t *testing.T, route adapters.Route, steps int) error {
	t.Helper()
	// By the server's clock first: WithClock does not call TIME.
	if _, err := adapters.Rueidis.Open(t, route, redisstore.Options{}).Check(t.Context()); err != nil {
		return err
	}
	plain := adapters.Rueidis.Dial(t, route)
	now := int64(1_800_000_000_000_000)
	store, err := redisstore.New(redistest.WithClock(plain, func() int64 { return now }), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &walker{rnd: rand.New(rand.NewPCG(1, 0)), store: store, now: &now}
	for range steps {
		if err := w.step(t.Context()); err != nil {
			return err
		}
	}
	records := store.Records("records")
	if _, err := records.PutRecords(t.Context(), []redisstore.Record{{Name: "r", Text: "x", Until: time.UnixMicro(now + 1_000_000)}}); err != nil {
		return err
	}
	page, err := records.RecordsSince(t.Context(), redisstore.RecordMark{}, 10)
	if err == nil && len(page.Records) != 1 {
		t.Errorf("of one record, %d are read", len(page.Records))
	}
	return err
}

type walker struct {
	rnd     *rand.Rand
	store   *redisstore.Store
	now     *int64
	charges []sluice.Charge
	seq     uint64 // of the last claim
}

// walkAlgorithms are of all kinds. The walk uses each under its own name and, now and then,
// under the name of another.
var walkAlgorithms = []sluice.Algorithm{
	sluice.TokenBucket{Rate: sluice.PerSecond(5)},
	sluice.TokenBucket{Rate: sluice.PerSecond(5), WarmUp: time.Second},
	sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 5},
	sluice.FixedWindow{Rate: sluice.PerSecond(5)},
	sluice.FixedWindow{Rate: sluice.PerSecond(5), CountDenied: true},
	sluice.SlidingWindow{Rate: sluice.PerSecond(5)},
	sluice.SlidingWindow{Rate: sluice.PerSecond(5), CountDenied: true},
	sluice.SlidingCounter{Rate: sluice.PerSecond(5)},
	sluice.SlidingCounter{Rate: sluice.PerSecond(5), CountDenied: true},
	sluice.SlidingLog{Rate: sluice.PerSecond(5)},
	sluice.SlidingLog{Rate: sluice.PerSecond(20), MinInterval: time.Millisecond, CountDenied: true},
	sluice.Concurrency{Max: 5, Queue: 5, TTL: time.Second},
	sluice.Concurrency{Max: 20, TTL: 3 * time.Second},
}

func (w *walker) step(ctx context.Context) error {
	*w.now += w.rnd.Int64N(300_000)
	if w.rnd.IntN(50) == 0 {
		*w.now -= w.rnd.Int64N(10_000_000)
	}
	key := sluice.StringKey(fmt.Sprint("k", w.rnd.IntN(2)))
	request := func() sluice.Request {
		i := w.rnd.IntN(len(walkAlgorithms))
		name := fmt.Sprint("walk ", i)
		if w.rnd.IntN(20) == 0 {
			name = "walk 6" // a log, mostly
		}
		return sluice.Request{
			Limit: sluice.MustLimit(name, walkAlgorithms[i]), Key: key, Cost: 1 + w.rnd.Int64N(3),
			MaxWait: time.Duration(w.rnd.IntN(2)) * time.Second, Member: 1 + w.rnd.Uint64N(20),
		}
	}
	r := request()
	switch w.rnd.IntN(10) {
	case 9:
		return w.claim(ctx, r.Limit, key)
	case 8:
		return w.ban(ctx, r.Limit, key)
	case 0:
		out := make([]sluice.Decision, 2)
		r.Ban = &sluice.Ban{After: 3, For: time.Second}
		return w.store.DecideAll(ctx, []sluice.Request{r, request()}, out)
	case 1:
		if w.rnd.IntN(10) == 0 {
			return w.store.Reset(ctx, r.Limit, r.Key)
		}
	case 2, 3:
		return w.end(ctx)
	}
	d, err := w.store.Decide(ctx, r)
	if d.Allowed {
		w.charges = append(w.charges, r.Charge(&d))
	}
	return err
}

// claim claims units, if the limit can be granted.
func (w *walker) claim(ctx context.Context, l *sluice.Limit, key sluice.Key) error {
	h, err := l.WithHybrid(sluice.Hybrid{Stranded: 1})
	if err != nil {
		return nil //nolint:nilerr // another algorithm
	}
	var out [1]driver.Grant
	w.seq++
	w.store.Grant(ctx, 1+w.rnd.Uint64N(3), []driver.Claim{{Limit: h, Key: key, Seq: w.seq, Spent: w.rnd.Int64N(2), Want: 1, Take: w.rnd.Int64N(2)}}, out[:])
	return out[0].Err
}

// ban does what operators do.
func (w *walker) ban(ctx context.Context, l *sluice.Limit, key sluice.Key) error {
	switch w.rnd.IntN(3) {
	case 0:
		return w.store.BanKey(ctx, l, key, time.Second)
	case 1:
		_, err := w.store.LiftBan(ctx, l, key)
		return err
	default:
		_, err := w.store.ListBans(ctx, sluice.BanQuery{Most: 10})
		return err
	}
}

// end ends a charge in one way or another.
func (w *walker) end(ctx context.Context) error {
	if len(w.charges) == 0 {
		return nil
	}
	last := len(w.charges) - 1
	c := w.charges[last]
	w.charges = w.charges[:last]
	var err error
	switch w.rnd.IntN(3) {
	case 0:
		err = w.store.Cancel(ctx, c)
	case 1:
		err = w.store.Settle(ctx, c, w.rnd.Int64N(5))
	default:
		err = w.store.Release(ctx, c, time.Millisecond)
	}
	if errors.Is(err, sluice.ErrUnsupported) || errors.Is(err, sluice.ErrLeaseLost) || errors.Is(err, sluice.ErrActed) {
		return nil
	}
	return err
}

// TestLeastPrivilegeOnACluster decides batches over slots as the user for clusters, and
// decides for a key of a slot that migrates. Without a command for it, a decision fails.
// Rueidis sends CLUSTER SHARDS instead of CLUSTER SLOTS to Redis 8 or later.
func TestLeastPrivilegeOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, redistest.ACL("user default off"))
	words := adapters.DocumentedUser(t, "sluice-cluster")
	if one := adapters.DocumentedUser(t, "sluice"); !slices.Equal(words[:len(one)], one) || len(words) != len(one)+3 {
		t.Errorf("the user for clusters may %q, and the other %q", words, one)
	}
	users := map[string][]string{"all": words}
	for _, word := range []string{"+cluster|slots", "+asking"} {
		i := slices.Index(words, word)
		users[word] = slices.Delete(slices.Clone(words), i, i+1)
	}
	for name, words := range users {
		route := adapters.ToCluster(cluster).As("user")
		for _, s := range cluster.Nodes {
			adapters.SetUser(t, s, "user", words)
		}
		a := adapters.Goredis // which connects with its first call
		t.Run(name, func(t *testing.T) {
			err := onAWay(t, cluster, a, route)
			if (err == nil) != (name == "all") {
				t.Errorf("as this user: %v", err)
			}
		})
	}
	route := adapters.ToCluster(cluster).As("user")
	for _, s := range cluster.Nodes {
		adapters.SetUser(t, s, "user", words)
	}
	if err := onAWay(t, cluster, adapters.Rueidis, route); err != nil {
		t.Error(err)
	}
}

// onAWay decides batches, and then for keys of a slot that is on its way.
func onAWay(t *testing.T, cluster *redistest.Cluster, a adapters.Adapter, route adapters.Route) error {
	t.Helper()
	store := a.Open(t, route, redisstore.Options{})
	rs := make([]sluice.Request, 6)
	for i := range rs {
		rs[i] = sluice.Request{Limit: onceBucket, Key: sluice.StringKey(fmt.Sprint("acl ", i)), Cost: 1}
	}
	if err := store.DecideAll(redistest.Within(t, redistest.Soon), rs, make([]sluice.Decision, len(rs))); err != nil {
		return err
	}
	ctx := redistest.Within(t, redistest.Soon)
	fresh := sluice.StringKey(fmt.Sprint("acl ", rand.Uint64()))
	slot, err := cluster.Slot(ctx, "{"+fresh.Text()+"}")
	if err != nil {
		t.Fatal(err)
	}
	owner, err := cluster.Owner(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	to := cluster.Nodes[(slices.Index(cluster.Nodes, owner)+1)%3]
	m, err := cluster.BeginMigration(ctx, slot, to)
	if err != nil {
		t.Fatal(err)
	}
	_, asked := store.Decide(ctx, sluice.Request{Limit: onceBucket, Key: fresh, Cost: 1})
	for moved := 1; moved > 0; {
		if moved, err = m.Move(ctx, 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.End(ctx); err != nil {
		t.Fatal(err)
	}
	return asked
}

// TestLeastPrivilegeWithSentinels decides as the user for sentinels. Rueidis calls ROLE on a master:
// whether it is one, and go-redis does not.
func TestLeastPrivilegeWithSentinels(t *testing.T) {
	t.Parallel()
	sentinels := redistest.StartSentinels(t, redistest.ACL("user default off"))
	words := adapters.DocumentedUser(t, "sluice-sentinel")
	if one := adapters.DocumentedUser(t, "sluice"); !slices.Equal(words, append(one, "+role")) {
		t.Errorf("the user for sentinels may %q, and the other %q", words, one)
	}
	route := adapters.ToSentinels(sentinels).As("user")
	for _, s := range sentinels.Nodes {
		adapters.SetUser(t, s, "user", words)
	}
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		if _, err := a.Open(t, route, redisstore.Options{}).Check(redistest.Within(t, redistest.Soon)); err != nil {
			t.Error(err)
		}
	})
	for _, s := range sentinels.Nodes {
		adapters.SetUser(t, s, "user", words[:len(words)-1])
	}
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: route.Addrs, Username: route.User, Password: route.Password, DisableCache: true,
		Sentinel: rueidis.SentinelOption{MasterSet: route.Master},
	})
	if err == nil {
		c.Close()
		t.Error("rueidis finds a master without +role")
	}
}
