package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/sluicehq/sluice/server/internal/watch"
)

// reloader makes a server reload its configuration when the file changes, and on SIGHUP. It is made before the
// file is read for the first time, so that no change is missed.
type reloader struct {
	file    *watch.Watcher
	hangups chan os.Signal
	others  atomic.Pointer[[]string] // the files that the last valid configuration names
}

// newReloader returns a reloader, or nil for a server without a file, which SIGHUP ends as usual.
func newReloader(path string) *reloader {
	if path == "" {
		return nil
	}
	r := &reloader{hangups: make(chan os.Signal, 1)}
	r.others.Store(new([]string))
	r.file = watch.New(watch.Options{
		Path: path, Most: policyfile.MaxListSize + 1,
		Others: func() []string { return *r.others.Load() },
	})
	signal.Notify(r.hangups, syscall.SIGHUP)
	return r
}

// loaded sets the file that was read last.
func (r *reloader) loaded(f *policyfile.File) {
	if r != nil {
		files := f.Files()
		r.others.Store(&files)
	}
}

// close gives up a reloader that does not run.
func (r *reloader) close() {
	if r != nil {
		signal.Stop(r.hangups)
		r.file.Close()
	}
}

// run reloads until the context ends. The server logs the outcome itself.
func (r *reloader) run(ctx context.Context, a *app.App, logger *slog.Logger) {
	if r == nil {
		return
	}
	defer signal.Stop(r.hangups)
	if err := r.file.Degraded(); err != nil {
		logger.Warn("changes of the configuration are noticed late; SIGHUP makes the server read it at once", "error", err)
	}
	var running sync.WaitGroup
	running.Go(func() { r.file.Run(ctx, func() { _ = a.Reload() }) })
	defer running.Wait()
	for {
		select {
		case <-r.hangups:
			_ = a.Reload()
		case <-ctx.Done():
			return
		}
	}
}
