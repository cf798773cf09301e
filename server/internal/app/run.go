package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// settle is how long connections that are being made may take when the server
// drains: a round trip, and some.
const settle = 200 * time.Millisecond

// Run answers requests until the context ends, and then drains: the server says
// that it is not ready, takes no more connections, and lets the requests that are
// under way end, for as long as the configuration's drain_timeout.
func (a *App) Run(ctx context.Context) error {
	defer a.release()
	var running sync.WaitGroup
	failed := make(chan error, len(a.servers))
	for _, s := range a.servers {
		running.Go(func() {
			if err := s.serve(a.file.HTTP.MaxConnections); err != nil {
				failed <- fmt.Errorf("sluice: the %s listener: %w", s.name, err)
			}
		})
	}
	if a.echo != nil {
		running.Go(func() {
			if err := a.echo.Serve(a.pipe); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				a.logger.Error("the built-in service ended", "error", err)
			}
		})
	}
	telling, stopTelling := context.WithCancel(ctx)
	defer stopTelling()
	if a.webhook != nil {
		running.Go(func() { a.webhook.Run(telling) })
	}
	a.serving.Store(true)

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stopTelling()
	err = errors.Join(err, a.drain())
	a.release()
	running.Wait()
	return err
}

// drain ends the servers, the admin listener last, so that it tells meanwhile that
// the others are ending.
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
		s.refuse(min(a.o.Linger, settle))
		lingering, stop := context.WithTimeout(ctx, a.o.Linger)
		defer stop()
		s.linger(lingering)
		return s.shutdown(ctx)
	})
	if err != nil {
		err = fmt.Errorf("sluice: requests were cut off: they did not end within drain_timeout, %v", a.file.DrainTimeout)
	}
	a.cut()
	err = errors.Join(err, a.each(func(s *server) error {
		if s.name != Admin {
			s.close()
			return nil
		}
		// Probes are short; one that hangs is not waited for.
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.refuse(time.Millisecond)
		if s.shutdown(short) != nil {
			s.close()
		}
		return nil
	}))
	a.logger.Info("stopped", "after", time.Since(began).Round(time.Millisecond))
	return err
}

// each does something with all servers at once.
func (a *App) each(do func(*server) error) error {
	errs := make([]error, len(a.servers))
	var all sync.WaitGroup
	for i, s := range a.servers {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errors.Join(errs...)
}
