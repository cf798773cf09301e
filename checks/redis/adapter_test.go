package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/goredisstore"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// Each adapter is held to what redisstore.Client promises, against real servers.

// An adapterRoute says how to reach a server.
type adapterRoute struct {
	addrs          []string
	network        string // "unix" or empty
	tls            *tls.Config
	user, password string
	cluster        bool
	master         string            // of sentinels at addrs
	through        map[string]string // where to connect to instead, by address
}

// dial connects for a client that wants to be at addr.
func (r adapterRoute) dial(ctx context.Context, addr string) (net.Conn, error) {
	if instead, ok := r.through[addr]; ok {
		addr = instead
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// An adapter makes a client for a route, or a store, as its documentation says. The
// library's client is closed when the test ends.
type adapter struct {
	name string
	dial func(tb testing.TB, r adapterRoute) redisstore.Client
	open func(tb testing.TB, r adapterRoute, o redisstore.Options) *redisstore.Store
}

var adapters = []adapter{
	{
		name: "rueidis",
		dial: func(tb testing.TB, r adapterRoute) redisstore.Client {
			tb.Helper()
			c, err := rueidisstore.NewClient(rueidisOptions(r))
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = c.Close() })
			return c
		},
		open: func(tb testing.TB, r adapterRoute, o redisstore.Options) *redisstore.Store {
			tb.Helper()
			s, err := rueidisstore.New(rueidisOptions(r), o)
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = s.Close() })
			return s
		},
	},
	goredisAdapter("goredis", dialGoredis),
}

// goredisAdapter returns the adapter for the clients that dial returns.
func goredisAdapter(name string, dial func(testing.TB, adapterRoute) goredis.UniversalClient) adapter {
	return adapter{
		name: name,
		dial: func(tb testing.TB, r adapterRoute) redisstore.Client {
			tb.Helper()
			c, err := goredisstore.NewClient(dial(tb, r))
			if err != nil {
				tb.Fatal(err)
			}
			return c
		},
		open: func(tb testing.TB, r adapterRoute, o redisstore.Options) *redisstore.Store {
			tb.Helper()
			s, err := goredisstore.New(dial(tb, r), o)
			if err != nil {
				tb.Fatal(err)
			}
			return s
		},
	}
}

func rueidisOptions(r adapterRoute) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: r.addrs,
		TLSConfig:   r.tls,
		Username:    r.user,
		Password:    r.password,
	}
	o.Sentinel.MasterSet = r.master
	switch {
	case r.through != nil:
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return r.dial(ctx, addr)
		}
	case r.network == "unix":
		o.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	return o
}

func dialGoredis(tb testing.TB, r adapterRoute) goredis.UniversalClient {
	tb.Helper()
	return goredisClient(tb, r, -1, true)
}

// goredisClient returns a client with these retries, and with or without deadlines of contexts.
func goredisClient(tb testing.TB, r adapterRoute, retries int, deadlines bool) goredis.UniversalClient {
	tb.Helper()
	var c goredis.UniversalClient
	switch {
	case r.cluster:
		o := &goredis.ClusterOptions{Addrs: r.addrs, Username: r.user, Password: r.password, MaxRetries: retries, ContextTimeoutEnabled: deadlines}
		if r.through != nil {
			o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) { return r.dial(ctx, addr) }
		}
		c = goredis.NewClusterClient(o)
	case r.master != "":
		c = goredis.NewFailoverClient(&goredis.FailoverOptions{
			SentinelAddrs: r.addrs, MasterName: r.master, Username: r.user, Password: r.password,
			MaxRetries: retries, ContextTimeoutEnabled: deadlines,
		})
	default:
		c = goredis.NewClient(&goredis.Options{
			Network: r.network, Addr: r.addrs[0], TLSConfig: r.tls, Username: r.user, Password: r.password,
			MaxRetries: retries, ContextTimeoutEnabled: deadlines,
		})
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// eachAdapter runs a test for every adapter.
func eachAdapter(t *testing.T, test func(t *testing.T, a adapter)) {
	t.Helper()
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) { test(t, a) })
	}
}

func toServer(s *redistest.Server) adapterRoute { return adapterRoute{addrs: []string{s.Addr()}} }

func toProxy(p *redistest.Proxy) adapterRoute { return adapterRoute{addrs: []string{p.Addr()}} }

// within is a context for a call that has to end soon.
func within(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}

// soon is far longer than a call takes that nothing disturbs.
const soon = 10 * time.Second

// counting counts how often it ran.
const counting = `return tostring(redis.call('INCR', KEYS[1])) .. ARGV[1]`

// counted returns how often counting ran on a key.
func counted(t *testing.T, s *redistest.Server, key string) int64 {
	t.Helper()
	n, err := s.Int(within(t, soon), "INCRBY", key, "0")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func wantCount(t *testing.T, s *redistest.Server, key string, want int64) {
	t.Helper()
	if n := counted(t, s, key); n != want {
		t.Fatalf("the script ran %d times; want %d", n, want)
	}
}

// load gives counting to a server and returns its digest.
func load(t *testing.T, s *redistest.Server) string {
	t.Helper()
	sha, err := s.Text(within(t, soon), "SCRIPT", "LOAD", counting)
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

func wantReply(t *testing.T, want, got string, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Fatalf("the reply is %q, %v; want %q", got, err, want)
	}
}

// wantServerError checks that a reply is an error that the server wrote.
func wantServerError(t *testing.T, err error, prefix string) {
	t.Helper()
	var reply *redisstore.ServerError
	if !errors.As(err, &reply) || !strings.HasPrefix(reply.Text, prefix) {
		t.Fatalf("%v; want the server's error %s", err, prefix)
	}
}

// wantUnknown checks that an error leaves open whether the script ran.
func wantUnknown(t *testing.T, err error) {
	t.Helper()
	var reply *redisstore.ServerError
	if err == nil || errors.As(err, &reply) || errors.Is(err, redisstore.ErrNotSent) {
		t.Fatalf("%v; want an error that leaves open whether the script ran", err)
	}
}

func wantNotSent(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, redisstore.ErrNotSent) {
		t.Fatalf("%v; want one that wraps ErrNotSent", err)
	}
}

// wantMisfit checks that an error says what no waiting mends.
func wantMisfit(t *testing.T, err error, part string) {
	t.Helper()
	var misfit *redisstore.MisfitError
	if !errors.As(err, &misfit) || !strings.Contains(err.Error(), part) {
		t.Errorf("%v; want that it never works, and %q", err, part)
	}
}
