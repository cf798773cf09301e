package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluicehq/sluice/internal/file/envoy"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/watch"
)

// mostSecret bounds the bytes that are read of each certificate or token.
const mostSecret = 1 << 20

// reloader makes a server reload its configuration when the file changes, and on SIGHUP. It also makes the server
// read certificates and tokens again. It is made before the
// file is read for the first time, so that no change is missed.
type reloader struct {
	file    *watch.Watcher // nil for a server without a file
	hangups chan os.Signal
	others  atomic.Pointer[[]string] // the files that the last valid configuration names
}

// newReloader returns a reloader. Until it is closed, SIGHUP does not end the program.
func newReloader(path string) *reloader {
	r := &reloader{hangups: make(chan os.Signal, 1)}
	r.others.Store(new([]string))
	if path != "" {
		r.file = watch.New(watch.Options{
			Path: path, Most: rules.MaxListSize + 1,
			Others: func() []string {
				files := *r.others.Load()
				if isFolder(path) {
					found, _ := envoy.Files(path) // an error is in the log of the reload
					files = slices.Concat(files, found)
				}
				return files
			},
		})
	}
	signal.Notify(r.hangups, syscall.SIGHUP)
	return r
}

// loaded sets the file that was read last.
func (r *reloader) loaded(f *config.File) {
	files := f.Files()
	r.others.Store(&files)
}

// close ends a reloader that does not run, or not any more.
func (r *reloader) close() {
	signal.Stop(r.hangups)
	if r.file != nil {
		r.file.Close()
	}
}

// run reloads until the context ends. The server logs the outcome itself.
func (r *reloader) run(ctx context.Context, a *app.App, logger *slog.Logger) {
	var running sync.WaitGroup
	defer running.Wait()
	if r.file != nil {
		if err := r.file.Degraded(); err != nil {
			logger.Warn("changes of the configuration are noticed late; SIGHUP makes the server read it at once", "error", err)
		}
		running.Go(func() { r.file.Run(ctx, func() { _ = a.Reload() }) })
	}
	if files := a.RefreshFiles(); len(files) > 0 {
		w := watch.New(watch.Options{Others: func() []string { return files }, Most: mostSecret, Since: true})
		running.Go(func() { w.Run(ctx, func() { _ = a.Refresh() }) })
	}
	for {
		select {
		case <-r.hangups:
			_ = a.Refresh()
			if err := a.Reload(); errors.Is(err, app.ErrNoFile) {
				logger.Warn("SIGHUP changes nothing", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}
