package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mailgun/gubernator/v2"
	"github.com/sirupsen/logrus"

	"github.com/sluicehq/sluice/checks/fleet"
)

// startTime bounds how long the daemons of a cluster wait for each other.
const startTime = 30 * time.Second

// algorithms are Gubernator's algorithms, by the algorithms of fleet.Terms that they are like.
var algorithms = map[string]gubernator.Algorithm{
	"bucket": gubernator.Algorithm_LEAKY_BUCKET,
	"opened": gubernator.Algorithm_TOKEN_BUCKET, // a window, not a bucket
}

// daemon implements fleet.Subject.
type daemon struct {
	*gubernator.Daemon
	loads      []fleet.Load
	algorithms []gubernator.Algorithm // of the loads
}

// start starts the daemon of a process, and waits for the others.
func start(s *fleet.Spec) (fleet.Subject, error) {
	if s.Peer >= len(s.Peers) {
		return nil, fmt.Errorf("index %d of %d peers", s.Peer, len(s.Peers))
	}
	var kinds []gubernator.Algorithm
	for _, l := range s.Loads {
		kind, ok := algorithms[l.Terms.Algorithm]
		if !ok {
			return nil, fmt.Errorf("gubernator has no algorithm like %q", l.Terms.Algorithm)
		}
		kinds = append(kinds, kind)
	}
	silent := logrus.New()
	silent.SetOutput(io.Discard)
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	d, err := gubernator.SpawnDaemon(ctx, gubernator.DaemonConfig{
		InstanceID:        s.Peers[s.Peer],
		GRPCListenAddress: s.Peers[s.Peer],
		HTTPListenAddress: "127.0.0.1:0",
		PeerDiscoveryType: "static", // none of its own kinds: SetPeers has the peers
		Behaviors:         gubernator.BehaviorConfig{GlobalSyncWait: s.Sync},
		Logger:            logrus.NewEntry(silent),
	})
	if err != nil {
		return nil, err
	}
	var peers []gubernator.PeerInfo
	for _, address := range s.Peers {
		if err := reach(ctx, address); err != nil {
			return nil, err
		}
		peers = append(peers, gubernator.PeerInfo{GRPCAddress: address})
	}
	d.SetPeers(peers)
	return &daemon{d, s.Loads, kinds}, nil
}

// reach waits until something listens at the address.
func reach(ctx context.Context, address string) error {
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Take implements fleet.Subject.
func (d *daemon) Take(ctx context.Context, load int) (bool, error) {
	l := &d.loads[load]
	// The daemon keeps the request in a queue, so each decision has its own.
	answer, err := d.V1Server.GetRateLimits(ctx, &gubernator.GetRateLimitsReq{Requests: []*gubernator.RateLimitReq{{
		Name: l.Terms.Name, UniqueKey: l.Key, Hits: 1,
		Algorithm: d.algorithms[load],
		Limit:     l.Terms.Count, Duration: l.Terms.Period.Milliseconds(), Burst: l.Terms.Capacity(),
		Behavior: gubernator.Behavior_GLOBAL,
	}}})
	if err != nil {
		return false, err
	}
	r := answer.Responses[0]
	if r.Error != "" {
		return false, errors.New(r.Error)
	}
	return r.Status == gubernator.Status_UNDER_LIMIT, nil
}

// Drain implements fleet.Subject. There are no grants.
func (*daemon) Drain(context.Context) error { return nil }

// Stats implements fleet.Subject.
func (d *daemon) Stats(s *fleet.Stats) {
	calls, err := d.calls()
	if err != nil && s.FirstError == "" {
		s.FirstError = "calls were not counted: " + err.Error()
	}
	s.Calls = calls
}

// calls returns how many calls the daemon got from others: its metrics have them.
func (d *daemon) calls() (calls int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.HTTPListener.Addr().String()+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(name, "gubernator_grpc_request_counts{") || !strings.Contains(name, "PeersV1/") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		calls += int64(n)
	}
	return calls, lines.Err()
}

// Close implements fleet.Subject. The daemon ends with its process: an end in order would wait for daemons
// that have ended.
func (*daemon) Close() error { return nil }
