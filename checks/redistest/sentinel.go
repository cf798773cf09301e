package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
)

// SentinelName is what sentinels call their master.
const SentinelName = "sluice"

// haste makes sentinels look around often, where they would every ten seconds, and
// ping often enough that a new master answers before it is taken for down. Not more
// often: they trust a replica for no longer than five pings while its master is
// down, and poll it once a second. And a busy machine is not to make them doubt their
// clocks for half a minute.
var haste = []string{
	"SENTINEL", "DEBUG", "ping-period", "500", "info-period", "500", "publish-period", "500",
	"tilt-trigger", "10000", "tilt-period", "1000",
}

// Sentinels are three sentinels over a master and its replica. The methods are safe for
// concurrent use.
type Sentinels struct {
	Sentinels []*Server
	Nodes     []*Server // at first the master, then the replica
}

// StartSentinels runs them until the test ends. The sentinels take a master that does
// not answer for a second to be down, and the replica is master a second or two
// later. Options go to the master and the replica.
func StartSentinels(tb testing.TB, opts ...Option) *Sentinels {
	tb.Helper()
	s, err := NewSentinels(forTest(tb, opts)...)
	if err != nil {
		tb.Fatal(err)
	}
	for _, one := range s.all() {
		one.endWith(tb)
	}
	return s
}

// NewSentinels runs them until Close. In tests, use StartSentinels.
func NewSentinels(opts ...Option) (*Sentinels, error) {
	s := new(Sentinels)
	if err := s.start(opts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sentinels) start(opts []Option) error {
	master, err := New(opts...)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, master)
	replica, err := New(append([]Option{Config("replicaof 127.0.0.1 " + master.ports.plain)}, opts...)...)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, replica)
	lines := []string{
		"sentinel monitor " + SentinelName + " 127.0.0.1 " + master.ports.plain + " 2",
		"sentinel down-after-milliseconds " + SentinelName + " 1000",
		"sentinel failover-timeout " + SentinelName + " 2500",
	}
	if master.opts.acl != nil {
		lines = append(lines,
			"sentinel auth-user "+SentinelName+" "+ownUser,
			"sentinel auth-pass "+SentinelName+" "+ownPass,
		)
	}
	for range 3 {
		one, err := start(&options{program: master.opts.program, sentinel: true, lines: lines})
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, one)
		if _, err := one.Do(context.Background(), haste...); err != nil {
			return err
		}
	}
	return s.WaitOK(context.Background())
}

func (s *Sentinels) all() []*Server { return append(append([]*Server{}, s.Nodes...), s.Sentinels...) }

// Close ends all servers.
func (s *Sentinels) Close() error {
	var err error
	for _, one := range s.all() {
		err = errors.Join(err, one.Close())
	}
	return err
}

// Addrs are the addresses of the sentinels.
func (s *Sentinels) Addrs() []string {
	var all []string
	for _, one := range s.Sentinels {
		all = append(all, one.Addr())
	}
	return all
}

// Master returns the master, as the first sentinel that runs sees it.
func (s *Sentinels) Master(ctx context.Context) (*Server, error) {
	for _, one := range s.Sentinels {
		if one.PID() != 0 {
			return s.masterOf(ctx, one)
		}
	}
	return nil, errors.New("redistest: no sentinel runs")
}

func (s *Sentinels) masterOf(ctx context.Context, sentinel *Server) (*Server, error) {
	v, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelName)
	if err != nil {
		return nil, err
	}
	list, _ := v.([]any)
	if len(list) != 2 {
		return nil, fmt.Errorf("redistest: a sentinel has no master: %v", v)
	}
	addr := net.JoinHostPort(fmt.Sprint(list[0]), fmt.Sprint(list[1]))
	for _, node := range s.Nodes {
		if node.Addr() == addr {
			return node, nil
		}
	}
	return nil, fmt.Errorf("redistest: a sentinel names a master that was not started: %s", addr)
}

// WaitOK returns when every sentinel that runs lists the others and a replica, and
// sees no node or sentinel of them down.
func (s *Sentinels) WaitOK(ctx context.Context) error {
	return until(ctx, "the sentinels to know each other", func(ctx context.Context) error {
		for _, one := range s.Sentinels {
			if one.PID() == 0 {
				continue
			}
			if _, err := one.Do(ctx, "SENTINEL", "CKQUORUM", SentinelName); err != nil {
				return err
			}
			v, err := one.Do(ctx, "SENTINEL", "MASTER", SentinelName)
			if err != nil {
				return err
			}
			m := pairs(v)
			if m["flags"] != "master" || m["num-slaves"] != "1" || m["num-other-sentinels"] != "2" {
				return fmt.Errorf("the sentinel at %s sees %v", one.Addr(), m)
			}
			v, err = one.Do(ctx, "SENTINEL", "REPLICAS", SentinelName)
			if err != nil {
				return err
			}
			list, _ := v.([]any)
			for _, r := range list {
				if m := pairs(r); strings.Contains(m["flags"], "down") || m["master-link-status"] != "ok" {
					return fmt.Errorf("the sentinel at %s sees %v", one.Addr(), m)
				}
			}
		}
		return nil
	})
}

// WaitFailover returns the new master when all sentinels that run name one other
// than old, and it takes writes. To begin one, pause or kill the master; or call
// Failover.
func (s *Sentinels) WaitFailover(ctx context.Context, old *Server) (*Server, error) {
	var found *Server
	err := until(ctx, "the sentinels to fail over from "+old.Addr(), func(ctx context.Context) error {
		found = nil
		for _, one := range s.Sentinels {
			if one.PID() == 0 {
				continue
			}
			m, err := s.masterOf(ctx, one)
			if err != nil {
				return err
			}
			if m == old {
				return fmt.Errorf("the sentinel at %s still names it", one.Addr())
			}
			found = m
		}
		if found == nil {
			return errors.New("no sentinel runs")
		}
		info, err := found.Info(ctx, "replication")
		if err != nil {
			return err
		}
		if info["role"] != "master" {
			return fmt.Errorf("the server at %s is not a master yet", found.Addr())
		}
		return nil
	})
	return found, err
}

// Failover makes the replica take over, without a fault, and returns it.
func (s *Sentinels) Failover(ctx context.Context) (*Server, error) {
	old, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.Sentinels[0].Do(ctx, "SENTINEL", "FAILOVER", SentinelName); err != nil {
		return nil, err
	}
	return s.WaitFailover(ctx, old)
}

// pairs reads a reply of names and values in turn.
func pairs(v any) map[string]string {
	list, _ := v.([]any)
	m := make(map[string]string)
	for i := 0; i+1 < len(list); i += 2 {
		m[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return m
}
