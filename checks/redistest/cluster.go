package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Slots is the number of slots of a cluster.
const Slots = 16384

// A Cluster is a cluster of server processes. Its methods are safe for concurrent use.
type Cluster struct {
	// Nodes are all servers, at first the masters and then their replicas.
	Nodes []*Server

	ids []string // the ids of the nodes
}

// StartCluster runs a cluster until the test ends, with so many replicas for each
// master. A master that is gone for a second is found to have failed, and its
// replica takes over within another second or two.
func StartCluster(tb testing.TB, masters, replicas int, opts ...Option) *Cluster {
	tb.Helper()
	c, err := NewCluster(masters, replicas, forTest(tb, opts)...)
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range c.Nodes {
		s.endWith(tb)
	}
	return c
}

// NewCluster runs a cluster until Close. In tests, use StartCluster.
func NewCluster(masters, replicas int, opts ...Option) (*Cluster, error) {
	c := new(Cluster)
	if err := c.start(masters, replicas, opts); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(masters, replicas int, opts []Option) error {
	defaults := Config(
		"cluster-config-file nodes.conf",
		"cluster-node-timeout 1000",
		"cluster-replica-validity-factor 0",
	)
	for range masters * (1 + replicas) {
		o := collect(append([]Option{defaults}, opts...))
		o.cluster = true
		s, err := start(o)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for i, s := range c.Nodes {
		id, err := s.Text(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		c.ids = append(c.ids, id)
		// Epochs that differ from the start spare the nodes to settle who is right.
		if _, err := s.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < masters {
			from, to := i*Slots/masters, (i+1)*Slots/masters-1
			if _, err := s.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
				return err
			}
		}
	}
	for _, s := range c.Nodes[1:] {
		if _, err := c.Nodes[0].Do(ctx, "CLUSTER", "MEET", "127.0.0.1", s.ports.plain, s.ports.bus); err != nil {
			return err
		}
	}
	if err := c.waitKnown(ctx, len(c.Nodes)); err != nil {
		return err
	}
	for i, s := range c.Nodes[masters:] {
		if _, err := s.Do(ctx, "CLUSTER", "REPLICATE", c.ids[i/replicas]); err != nil {
			return err
		}
	}
	return c.WaitOK(ctx)
}

// Close ends all servers.
func (c *Cluster) Close() error {
	var err error
	for _, s := range c.Nodes {
		err = errors.Join(err, s.Close())
	}
	return err
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	var all []string
	for _, s := range c.Nodes {
		all = append(all, s.Addr())
	}
	return all
}

// WaitOK returns when every node that runs reports that the cluster is well: it has an
// owner for each slot, and all agree on them; replicas are in step with their masters.
// A paused node is one that runs.
func (c *Cluster) WaitOK(ctx context.Context) error {
	return until(ctx, "the cluster to be well", func(ctx context.Context) error {
		var first string
		for _, s := range c.running() {
			text, err := s.Text(ctx, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if info := fields(text); info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(Slots) {
				return fmt.Errorf("the node at %s says:\n%s", s.Addr(), text)
			}
			owners, err := owners(ctx, s)
			if err != nil {
				return err
			}
			if view := fmt.Sprint(owners); first == "" {
				first = view
			} else if view != first {
				return errors.New("the nodes do not agree on who owns the slots")
			}
			info, err := s.Info(ctx, "replication")
			if err != nil {
				return err
			}
			if info["role"] == "slave" && info["master_link_status"] != "up" {
				return fmt.Errorf("the replica at %s is not in step", s.Addr())
			}
		}
		return nil
	})
}

func (c *Cluster) waitKnown(ctx context.Context, n int) error {
	return until(ctx, "the nodes to know each other", func(ctx context.Context) error {
		for _, s := range c.Nodes {
			nodes, err := nodes(ctx, s)
			if err != nil {
				return err
			}
			known := 0
			for _, n := range nodes {
				if n.linked && !n.has("handshake") {
					known++
				}
			}
			if known != n {
				return fmt.Errorf("the node at %s lists %d nodes", s.Addr(), known)
			}
		}
		return nil
	})
}

func (c *Cluster) running() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *Server) bool { return s.PID() == 0 })
}

// Owner returns the master that owns the slot, as a node that runs sees it.
func (c *Cluster) Owner(ctx context.Context, slot int) (*Server, error) {
	for _, s := range c.running() {
		owners, err := owners(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, o := range owners {
			if o.from <= slot && slot <= o.to {
				return c.byID(o.id)
			}
		}
	}
	return nil, fmt.Errorf("redistest: nobody owns slot %d", slot)
}

// Masters returns the masters that own slots, in the order of their slots, as a node
// that runs sees them.
func (c *Cluster) Masters(ctx context.Context) ([]*Server, error) {
	running := c.running()
	if len(running) == 0 {
		return nil, errors.New("redistest: no node of the cluster runs")
	}
	owners, err := owners(ctx, running[0])
	if err != nil {
		return nil, err
	}
	var all []*Server
	for _, o := range owners {
		s, err := c.byID(o.id)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all, nil
}

// Replicas returns the replicas of a master, as a node that runs sees them.
func (c *Cluster) Replicas(ctx context.Context, master *Server) ([]*Server, error) {
	running := c.running()
	if len(running) == 0 {
		return nil, errors.New("redistest: no node of the cluster runs")
	}
	nodes, err := nodes(ctx, running[0])
	if err != nil {
		return nil, err
	}
	var all []*Server
	for _, n := range nodes {
		if n.master == c.id(master) {
			s, err := c.byID(n.id)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// Failover makes a replica of the master take over, without a fault: the master hands
// its slots over. It returns the new master when all nodes know it.
func (c *Cluster) Failover(ctx context.Context, master *Server) (*Server, error) {
	replicas, err := c.Replicas(ctx, master)
	if err != nil {
		return nil, err
	}
	if len(replicas) == 0 {
		return nil, fmt.Errorf("redistest: the master at %s has no replica", master.Addr())
	}
	if _, err := replicas[0].Do(ctx, "CLUSTER", "FAILOVER"); err != nil {
		return nil, err
	}
	return replicas[0], c.waitTakeover(ctx, master)
}

// KillMaster kills a master and returns when its replica has taken over and all nodes
// know it. Restart brings the killed one back, as a replica.
func (c *Cluster) KillMaster(ctx context.Context, master *Server) error {
	if err := master.Kill(); err != nil {
		return err
	}
	return c.waitTakeover(ctx, master)
}

func (c *Cluster) waitTakeover(ctx context.Context, old *Server) error {
	err := until(ctx, "a replica to take over from "+old.Addr(), func(ctx context.Context) error {
		masters, err := c.Masters(ctx)
		if err != nil {
			return err
		}
		if slices.Contains(masters, old) {
			return errors.New("it still owns slots")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.WaitOK(ctx)
}

func (c *Cluster) id(s *Server) string { return c.ids[slices.Index(c.Nodes, s)] }

func (c *Cluster) byID(id string) (*Server, error) {
	i := slices.Index(c.ids, id)
	if i < 0 {
		return nil, fmt.Errorf("redistest: the cluster has a node %s that it was not started with", id)
	}
	return c.Nodes[i], nil
}

// A clusterNode is a line of CLUSTER NODES.
type clusterNode struct {
	id     string
	flags  []string
	master string // the id of its master, or "-"
	linked bool
	ranges []slotRange
}

func (n clusterNode) has(flag string) bool { return slices.Contains(n.flags, flag) }

// A slotRange is owned by one node.
type slotRange struct {
	from, to int
	id       string
}

func nodes(ctx context.Context, s *Server) ([]clusterNode, error) {
	text, err := s.Text(ctx, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var all []clusterNode
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("redistest: CLUSTER NODES says %q", line)
		}
		n := clusterNode{id: f[0], flags: strings.Split(f[2], ","), master: f[3]}
		n.linked = f[7] == "connected"
		for _, word := range f[8:] {
			if strings.HasPrefix(word, "[") {
				continue // on its way
			}
			first, last, isRange := strings.Cut(word, "-")
			if !isRange {
				last = first
			}
			from, err := strconv.Atoi(first)
			if err != nil {
				return nil, fmt.Errorf("redistest: CLUSTER NODES says %q: %w", line, err)
			}
			to, err := strconv.Atoi(last)
			if err != nil {
				return nil, fmt.Errorf("redistest: CLUSTER NODES says %q: %w", line, err)
			}
			n.ranges = append(n.ranges, slotRange{from, to, n.id})
		}
		all = append(all, n)
	}
	return all, nil
}

// owners returns who owns which slots, in the order of the slots.
func owners(ctx context.Context, s *Server) ([]slotRange, error) {
	nodes, err := nodes(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []slotRange
	for _, n := range nodes {
		all = append(all, n.ranges...)
	}
	slices.SortFunc(all, func(a, b slotRange) int { return a.from - b.from })
	return all, nil
}
