package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// live are the settings that can change while the server runs: the settings of the policy, whom the server believes, and
// how it leaves. Other settings need a restart.
var live = []string{
	"version", "rules", "classes", "plans", "plan_from", "unknown_plan", "domains", "shadow", "default", "on_store_error", "ipv6_prefix", "paths",
	"trusted_proxies", "trust_marks", "near_limit", "drain", "drain_timeout",
}

// liveShare can change too: on_store_error: local needs it, and can change.
const liveShare = "store.redis.local.share"

// LiveSettings returns the names of the settings that can change while the server runs. All others
// need a restart.
func LiveSettings() []string { return slices.Clone(live) }

// reloads tracks which configuration is in force, and the outcome of the last reload. See docs/adr/0016.
type reloads struct {
	logger *slog.Logger
	one    sync.Mutex // held by the running Reload

	mu           sync.Mutex
	file         *config.File // in force
	since        time.Time
	refused      error // why the last reload was refused; nil if it succeeded
	refusedSince time.Time
	applied      uint64
	refusals     uint64
	log          []wire.Reload // the latest first
}

// mostReloads bounds the reloads that are listed.
const mostReloads = 10

// note lists a reload. The caller holds the lock.
func (r *reloads) note(at time.Time, changed []string, refused error) {
	x := wire.Reload{AtMS: at.UnixMilli(), Changed: changed}
	if refused != nil {
		x.Refused = refused.Error()
	}
	r.log = append([]wire.Reload{x}, r.log[:min(len(r.log), mostReloads-1)]...)
}

// number returns the number of the configuration in force, counted from the start.
func (r *reloads) number() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied
}

// list returns the last reloads, the latest first.
func (r *reloads) list() []wire.Reload {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// newReloads begins with the configuration at the start.
func newReloads(o *Options) *reloads {
	r := &reloads{logger: o.Logger, file: o.File, since: time.Now(), applied: 1}
	if o.Refused == nil {
		r.note(r.since, nil, nil)
	} else {
		r.since = o.Since
		r.note(r.since, nil, nil)
		r.refuse(o.Refused)
		r.logger.Error("the server starts with an earlier configuration, because the current one is bad", "of", o.Since.Format(time.RFC3339))
	}
	return r
}

// restartError names the changed settings that need a restart.
type restartError struct{ settings []string }

func (e *restartError) Error() string {
	return strings.Join(e.settings, ", ") + " cannot change while the server runs; restart it, or take that change back, because nothing else of the file is applied either"
}

// ErrNoFile is the error of Reload without Options.Load.
var ErrNoFile = errors.New("sluice: there is no configuration to reload: the server was started without a file")

// Reload reads the configuration again and replaces the policy, all at once. Decisions under way
// use the old policy, and the units that keys have used stay used. If the configuration has a
// mistake, or changes a setting that needs a restart, nothing of it is applied. The old
// configuration stays. The error is also in the log, in the answer of the readiness probe, and in
// the metrics. Reload is safe for concurrent use.
func (a *App) Reload() error {
	if a.o.Load == nil {
		return ErrNoFile
	}
	if a.draining.Load() {
		return errDraining
	}
	r := a.reloads
	r.one.Lock()
	defer r.one.Unlock()
	began := time.Now()
	f, changed, err := a.reload()
	a.audit.Reloaded(changed, err)
	if err != nil {
		r.refuse(err)
		return fmt.Errorf("sluice: %w", err)
	}
	_ = a.kept.keep(f) // the new configuration is in force; the error is in the log
	r.apply(f, changed)
	r.logger.Info("the configuration was reloaded", "changed", strings.Join(changed, ", "), "rules", len(f.Rules), "took", time.Since(began))
	return nil
}

// apply notes that a configuration is in force.
func (r *reloads) apply(f *config.File, changed []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied++
	r.file, r.refused, r.since = f, nil, time.Now()
	r.note(r.since, changed, nil)
}

// inForce returns the configuration in force.
func (r *reloads) inForce() *config.File {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file
}

// refuse notes and logs why a configuration is refused.
func (r *reloads) refuse(why error) {
	r.mu.Lock()
	r.refusals++
	r.refused, r.refusedSince = why, time.Now()
	r.note(r.refusedSince, nil, why)
	r.mu.Unlock()
	const message = "the configuration is refused, and the previous one stays"
	var restart *restartError
	if errors.As(why, &restart) {
		r.logger.Error(message, "error", restart)
	}
	if restart == nil || errors.As(why, new(reader.Errors)) {
		logMistakes(r.logger, slog.LevelError, message, why)
	}
}

// reload applies the configuration. It returns the configuration, and the settings and the files of lists and tables
// that changed.
func (a *App) reload() (f *config.File, changed []string, err error) {
	before := a.reloads.file
	if f, err = a.o.Load(); err != nil {
		return nil, nil, err
	}
	if err := f.Emptied(before); err != nil {
		return nil, nil, err
	}
	changed = config.Differences(before, f)
	o := a.o
	o.File = f
	missing := Check(o)
	if fixed := slices.DeleteFunc(slices.Clone(changed), isLive); len(fixed) > 0 {
		return nil, nil, errors.Join(&restartError{fixed}, missing)
	}
	changed = append(changed, config.ChangedFiles(before, f)...)
	rules, err := a.engine.compile(f, a.engine.decider.Policy())
	if err != nil {
		return nil, nil, err
	}
	if err := denial.CheckFiles(rules); err != nil {
		return nil, nil, err
	}
	if err := a.upstream.fallbacks.Set(rules); err != nil {
		return nil, nil, err
	}
	if err := a.engine.setPolicy(f, rules); err != nil {
		return nil, nil, err
	}
	if missing != nil {
		logMistakes(a.o.Logger, slog.LevelWarn, "the configuration is in force, but a server would not start with it now", missing)
	}
	return f, changed, nil
}

// isLive reports whether a setting can change while the server runs.
func isLive(path string) bool {
	top, _, _ := strings.Cut(path, ".")
	return slices.Contains(live, top) || path == liveShare
}

// mostMistakes bounds the mistakes of a file that are logged, one line each.
const mostMistakes = 10

// logMistakes logs an error. Mistakes of a file are logged one by one, with their position.
func logMistakes(logger *slog.Logger, level slog.Level, message string, err error) {
	var mistakes reader.Errors
	if !errors.As(err, &mistakes) {
		logger.Log(context.Background(), level, message, "error", err)
		return
	}
	for i, m := range mistakes {
		if i == mostMistakes {
			logger.Log(context.Background(), level, message, "more_mistakes", len(mistakes)-i)
			break
		}
		logger.Log(context.Background(), level, message, "error", m)
	}
}

// status describes in a line why the last configuration is refused; empty if it is in force. It contains no
// values, because anybody who reaches the probes can read it.
func (r *reloads) status() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		return ""
	}
	text := "it cannot be read"
	var mistakes reader.Errors
	var restart *restartError
	switch {
	case errors.As(r.refused, &restart):
		text = "restart the server to change " + strings.Join(restart.settings, ", ")
	case errors.As(r.refused, &mistakes):
		m := mistakes[0]
		text = fmt.Sprintf("%s:%d:%d: a mistake", filepath.Base(m.File), m.Pos.Line, m.Pos.Column)
		if n := len(mistakes); n > 1 {
			text += fmt.Sprintf(", and %d more", n-1)
		}
	}
	return fmt.Sprintf("config: refused since %s, the one of %s stays; %s",
		r.refusedSince.UTC().Format(time.RFC3339), r.since.UTC().Format(time.RFC3339), text)
}

// publish publishes the metrics of reloads.
func (r *reloads) publish(m *telemetry.Metrics) {
	read := func(figure func() float64) func() float64 {
		return func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return figure()
		}
	}
	m.Gauge("sluice_config_last_reload_successful", "Whether the last configuration that was loaded is in force: 0 while it is refused.",
		read(func() float64 {
			if r.refused != nil {
				return 0
			}
			return 1
		}))
	m.Gauge("sluice_config_last_reload_success_timestamp_seconds", "When the configuration in force was loaded, in Unix time.",
		read(func() float64 { return float64(r.since.UnixMilli()) / 1000 }))
	m.Counters("sluice_config_reloads_total", "Configurations that were loaded, at the start and while the server ran, by outcome.",
		"outcome", []string{"applied", "refused"}, func(outcome string) float64 {
			return read(func() float64 {
				if outcome == "applied" {
					return float64(r.applied)
				}
				return float64(r.refusals)
			})()
		})
}
