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
	defer a.release()
	var running sync.WaitGroup
	failed := make(chan error, len(a.servers))
	bounds := a.connectionBounds()
	for _, s := range a.servers {
		running.Go(func() {
			if err := s.Run(bounds); err != nil {
				failed <- fmt.Errorf("sluice: the %s listener: %w", s.name, err)
			}
		})
	}
	notifying, stopNotifying := context.WithCancel(ctx)
	defer stopNotifying()
	if a.o.Keep != nil {
		running.Go(func() { a.runKept(notifying) })
	}
	if a.webhook != nil {
		running.Go(func() { a.webhook.Run(notifying) })
	}
	for _, r := range a.rooms {
		running.Go(func() { r.Watch(notifying) })
	}
	stopSaving := a.states.Start()
	a.serving.Store(true)
	a.audit.Started()

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stopNotifying()
	err = errors.Join(err, a.drain(), stopSaving())
	a.release()
	running.Wait()
	return err
}

// drain ends the servers. The admin listener ends last, so that it reports meanwhile that the server drains.
func (a *App) drain() error {
	a.draining.Store(true)
	a.logger.Info("draining: letting the requests under way end", "at_most", a.file.DrainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), a.file.DrainTimeout)
	defer cancel()

	began := time.Now()
	err := a.each(func(s *server) error {
		if s.name == Admin {
			return nil
		}
		s.Refuse(min(a.o.Linger, settle))
		return s.Shutdown(ctx)
	})
	if err != nil {
		err = fmt.Errorf("sluice: requests were cut off: they did not end within drain_timeout, %v", a.file.DrainTimeout)
	}
	a.cut()
	a.abandoned.Close()
	if a.redis != nil {
		a.redis.ReturnUnits()
	}
	err = errors.Join(err, a.each(func(s *server) error {
		if s.name != Admin {
			_ = s.Close() // the server ends; an error has no consequence
			return nil
		}
		// Probes are short; do not wait for a probe that hangs.
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Refuse(time.Millisecond)
		if s.Shutdown(short) != nil {
			_ = s.Close() // the same
		}
		return nil
	}))
	a.audit.Stopped()
	a.logger.Info("stopped", "after", time.Since(began).Round(time.Millisecond))
	return err
}

// each calls a function for all servers at once.
func (a *App) each(do func(*server) error) error {
	errs := make([]error, len(a.servers))
	var all sync.WaitGroup
	for i, s := range a.servers {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errors.Join(errs...)
}
