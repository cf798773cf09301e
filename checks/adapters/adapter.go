// Package adapters reaches the Redis servers of tests through each client library that
// Sluice has an adapter for.
package adapters

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/goredisstore"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// A Route says how to reach a server.
type Route struct {
	Addrs          []string
	Network        string // "unix" or empty
	TLS            *tls.Config
	User, Password string
	Cluster        bool
	Master         string            // the master's name, with sentinels at Addrs
	Through        map[string]string // for an address, the address to connect to instead
}

// To returns the route to one server, or to a proxy before it.
func To(addr string) Route { return Route{Addrs: []string{addr}} }

// ToSocket returns the route to a server's Unix socket, which takes a third less processor
// time than its port.
func ToSocket(s *redistest.Server) Route { return Route{Network: "unix", Addrs: []string{s.Socket}} }

// ToCluster returns the route to a cluster.
func ToCluster(c *redistest.Cluster) Route { return Route{Addrs: c.Addrs(), Cluster: true} }

// ToSentinels returns the route to the master of sentinels.
func ToSentinels(s *redistest.Sentinels) Route {
	return Route{Addrs: s.Addrs(), Master: redistest.SentinelName}
}

// dial connects for a client that wants to be at addr.
func (r Route) dial(ctx context.Context, addr string) (net.Conn, error) {
	if instead, ok := r.Through[addr]; ok {
		addr = instead
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// An Adapter makes a client for a route, or a store, as its documentation says. The
// library's client is closed when the test ends.
type Adapter struct {
	Name string
	Dial func(tb testing.TB, r Route) redisstore.Client
	Open func(tb testing.TB, r Route, o redisstore.Options) *redisstore.Store
}

// The adapters of Sluice. The documentation recommends Rueidis. Derived is for a program that
// has a client of go-redis with default options.
var (
	Rueidis = Adapter{
		Name: "rueidis",
		Dial: func(tb testing.TB, r Route) redisstore.Client {
			tb.Helper()
			c, err := rueidisstore.NewClient(rueidisOptions(r))
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = c.Close() })
			return c
		},
		Open: func(tb testing.TB, r Route, o redisstore.Options) *redisstore.Store {
			tb.Helper()
			s, err := rueidisstore.New(rueidisOptions(r), o)
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
	Goredis = ofGoredis("goredis", func(tb testing.TB, r Route) goredis.UniversalClient {
		tb.Helper()
		return GoredisClient(tb, r, -1, true)
	})
	Derived = ofGoredis("derived", func(tb testing.TB, r Route) goredis.UniversalClient {
		tb.Helper()
		return Derive(tb, GoredisClient(tb, r, 0, false))
	})
)

// Each runs a test for every adapter.
func Each(t *testing.T, test func(t *testing.T, a Adapter)) {
	t.Helper()
	for _, a := range []Adapter{Rueidis, Goredis} {
		t.Run(a.Name, func(t *testing.T) { test(t, a) })
	}
}

// ofGoredis returns the adapter for the clients that dial returns.
func ofGoredis(name string, dial func(testing.TB, Route) goredis.UniversalClient) Adapter {
	return Adapter{
		Name: name,
		Dial: func(tb testing.TB, r Route) redisstore.Client {
			tb.Helper()
			c, err := goredisstore.NewClient(dial(tb, r))
			if err != nil {
				tb.Fatal(err)
			}
			return c
		},
		Open: func(tb testing.TB, r Route, o redisstore.Options) *redisstore.Store {
			tb.Helper()
			s, err := goredisstore.New(dial(tb, r), o)
			if err != nil {
				tb.Fatal(err)
			}
			return s
		},
	}
}

func rueidisOptions(r Route) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: r.Addrs,
		TLSConfig:   r.TLS,
		Username:    r.User,
		Password:    r.Password,
	}
	o.Sentinel.MasterSet = r.Master
	switch {
	case r.Through != nil:
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return r.dial(ctx, addr)
		}
	case r.Network == "unix":
		o.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	return o
}

// GoredisClient returns a client with these retries, and with or without deadlines of contexts.
func GoredisClient(tb testing.TB, r Route, retries int, deadlines bool) goredis.UniversalClient {
	tb.Helper()
	var c goredis.UniversalClient
	switch {
	case r.Cluster:
		o := &goredis.ClusterOptions{Addrs: r.Addrs, Username: r.User, Password: r.Password, MaxRetries: retries, ContextTimeoutEnabled: deadlines}
		if r.Through != nil {
			o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) { return r.dial(ctx, addr) }
		}
		c = goredis.NewClusterClient(o)
	case r.Master != "":
		c = goredis.NewFailoverClient(&goredis.FailoverOptions{
			SentinelAddrs: r.Addrs, MasterName: r.Master, Username: r.User, Password: r.Password,
			MaxRetries: retries, ContextTimeoutEnabled: deadlines,
		})
	default:
		c = goredis.NewClient(&goredis.Options{
			Network: r.Network, Addr: r.Addrs[0], TLSConfig: r.TLS, Username: r.User, Password: r.Password,
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

// Derive returns a client that goredisstore makes from another one.
func Derive(tb testing.TB, c goredis.UniversalClient) goredis.UniversalClient {
	tb.Helper()
	own, err := goredisstore.Derive(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = own.Close() })
	return own
}
