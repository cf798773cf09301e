// Package edgetest has what tests of edges share: rules over a store in memory, servers that listen, and conditions
// that must come true. Only tests import it.
package edgetest

import (
	"bufio"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
)

// Patience is how long tests wait for what must come.
const Patience = 20 * time.Second

// Eventually waits for a condition.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	tb.Fatalf("%s did not happen", what)
}

// parse reads a file of rules, without its version.
func parse(tb testing.TB, rules string) *policy.Policy {
	tb.Helper()
	f, err := policyfile.Parse("test.yaml", []byte("version: 1\n"+rules))
	if err != nil {
		tb.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// store returns a store until the test ends.
func store(tb testing.TB, clock func() int64) *memory.Store {
	tb.Helper()
	s, err := memory.New(memory.Options{MaxBytes: 16 << 20, Clock: clock})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// Decider returns a decider by a file of rules, without its version. The clock is as for memory.Options.
func Decider(tb testing.TB, rules string, clock func() int64) *policy.Decider {
	tb.Helper()
	p := parse(tb, rules)
	d, err := policy.NewDecider(p, store(tb, clock))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// Gateway returns a decider for the requests that gateways report, by a file of rules, without its version. It fills
// in the decider and the gate of the options. It believes the proxies in the networks.
func Gateway(tb testing.TB, rules string, o gateway.Options, trusted ...string) (*gateway.Decider, *gate.Gate) {
	tb.Helper()
	p := parse(tb, rules)
	networks := make([]netip.Prefix, len(trusted))
	for i, network := range trusted {
		networks[i] = netip.MustParsePrefix(network)
	}
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: networks})
	if err != nil {
		tb.Fatal(err)
	}
	s := store(tb, nil)
	if o.Decider, err = httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: s, ClientIP: ip, TrustPlan: ip.TrustsPeer}); err != nil {
		tb.Fatal(err)
	}
	if o.Gate, err = gate.New(s, gate.Options{}); err != nil {
		tb.Fatal(err)
	}
	d, err := gateway.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return d, o.Gate
}

// Server is a server of connections, such as a stream.Server.
type Server interface {
	Serve(ln net.Listener) error
	Close() error
	Sessions() int
}

// Serve lets a server listen until the test ends, and returns its address. At the end no session is left.
func Serve(tb testing.TB, s Server) (address string) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	tb.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			tb.Error(err)
		}
		if err := <-done; err != nil {
			tb.Error(err)
		}
		Eventually(tb, "the end of all sessions", func() bool { return s.Sessions() == 0 })
	})
	return ln.Addr().String()
}

// A Conn is a connection of a test to a server. In reads what the server sends.
type Conn struct {
	net.Conn
	In *bufio.Reader
}

// Dial connects to a server until the test ends.
func Dial(tb testing.TB, address string) *Conn {
	tb.Helper()
	return DialFrom(tb, "", address)
}

// DialFrom connects from an address of this machine, such as 127.0.0.2.
func DialFrom(tb testing.TB, from, address string) *Conn {
	tb.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.Dial("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		tb.Fatal(err)
	}
	return &Conn{c, bufio.NewReader(c)}
}
