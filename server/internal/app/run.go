package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// settle is how long a handshake may take when the server drains: a round trip, and some more.
const settle = 200 * time.Millisecond

// Run answers requests until the context ends, and then drains. A draining server is not ready, and
// accepts no more connections. It waits up to drain_timeout until the requests under way have
// ended.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	stopStore := a.engine.store.Start()
	// The server is ready, and the audit log has begun, before the first request.
	a.serving.Store(true)
	a.audit.Started()
	failed, wait := a.servers.Start()
	notifying, stopNotifying := context.WithCancel(ctx)
	defer stopNotifying()
	var running sync.WaitGroup
	running.Go(func() { a.kept.run(notifying) })
	running.Go(func() { a.webhook.Run(notifying) })
	running.Go(func() { a.engine.decisions.History().Run(notifying) })
	if a.peers != nil {
		running.Go(func() { a.peers.Run(notifying) })
	}
	running.Go(func() { a.o.Manager.Watch(notifying, func() { _ = a.Ready() }) })
	a.o.Manager.Ready()

	var err error
	select {
	case <-ctx.Done():
		err = a.lameDuck(failed)
	case err = <-failed:
	}
	if err != nil {
		err = fmt.Errorf("sluice: %w", err)
	}
	stopNotifying()
	err = errors.Join(err, a.drain(), stopStore())
	wait()
	running.Wait()
	return err
}

// lameDuck answers requests for the delay of the drain, and says meanwhile that the server is not ready, so that
// balancers send no more. The error is of a listener that failed.
func (a *App) lameDuck(failed <-chan error) error {
	a.draining.Store(true)
	a.o.Manager.Stopping()
	delay := a.reloads.inForce().Drain.Delay
	if delay == 0 {
		return nil
	}
	a.o.Logger.Info("not ready any more: balancers have time to notice", "delay", delay)
	select {
	case err := <-failed:
		return err
	case <-time.After(delay):
		return nil
	}
}

// drain lets the requests under way end.
func (a *App) drain() error {
	a.draining.Store(true)
	most := a.reloads.inForce().DrainTimeout
	a.o.Logger.Info("draining: letting the requests under way end", "at_most", most)
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()

	began := time.Now()
	close(a.ending)
	err := a.servers.Drain(ctx, min(a.o.Linger, settle))
	if err != nil {
		err = fmt.Errorf("sluice: requests were cut off: they did not end within drain_timeout, %v", most)
	}
	a.cut()
	a.upstream.abandoned.Close()
	a.engine.store.Drain()
	a.servers.Close()
	a.audit.Stopped()
	a.o.Logger.Info("stopped", "after", time.Since(began).Round(time.Millisecond))
	return err
}
