package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/store/statefile"
	"github.com/sluicehq/sluice/server/internal/writable"
)

// States saves the states of a memory store in a file, now and then and at the end. Make it with Open. A nil States
// saves nothing.
type States struct {
	file    *statefile.File
	saver   *memory.Saver
	every   time.Duration
	logger  *slog.Logger
	observe func(time.Duration)
	refused bool // the file was refused at the start
	aside   bool // the refused file is still there, because the disk had no room to rename it; only save uses it

	retryAt time.Time // for a compaction that failed; only save uses it
	// Only save uses these: when to complain again, and how many saves it did not complain of.
	complainAt time.Time
	hidden     int

	mu      sync.Mutex
	savedAt time.Time // when the last successful save began
	failed  error     // of the latest save
	counts  saveCounts
}

// saveCounts are the figures of saves.
type saveCounts struct {
	saved, unchanged, failed, late uint64
	size                           int64
	longest                        time.Duration // the longest lock of a shard
}

// saveRetry is how long a failed compaction waits for the next attempt, while changes are still saved.
const saveRetry = 10 * time.Second

// options returns the options of the memory store of a configuration.
func options(m *Settings) memory.Options {
	return memory.Options{MaxBytes: int64(m.MaxSize), DenyWhenFull: m.WhenFull == "deny"}
}

// Open makes the memory store of a configuration, with the states of its file if it has one. The States are nil without
// a file. After an error nothing stays open.
func Open(m *Settings, logger *slog.Logger, metrics *telemetry.Metrics) (*memory.Store, *States, error) {
	if m.File == "" {
		store, err := memory.New(options(m))
		return store, nil, err
	}
	file, err := statefile.Open(m.File)
	if err != nil {
		return nil, nil, fmt.Errorf("store.memory.file: %w", err)
	}
	s := &States{
		file: file, every: m.SaveEvery, logger: logger,
		observe: metrics.Histogram("sluice_state_save_duration_seconds", "Duration of saves of the states."),
	}
	store, err := s.load(options(m))
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, nil, fmt.Errorf("store.memory.file: %w", err)
	}
	s.saver = store.NewSaver()
	// The first save makes a whole file. So a folder without rights is an error at the start. A full disk is not: after
	// a crash, a server that decides without saving is better than none.
	if err := s.save(true); err != nil && !writable.Full(err) {
		_, _ = file.Close(), store.Close() // the save has the error
		return nil, nil, fmt.Errorf("store.memory.file: saving the states: %w", err)
	}
	s.publish(metrics)
	return store, s, nil
}

// complaintEvery is how often saves that fail or take too long are logged.
const complaintEvery = time.Minute

// load returns a store with the states of the file. A file that cannot be understood is renamed, and
// the store is empty.
func (s *States) load(o memory.Options) (*memory.Store, error) {
	file := s.file
	r, err := file.Reader()
	if errors.Is(err, fs.ErrNotExist) {
		s.logger.Info("there are no saved states: all keys begin with full budgets", "file", file.Path())
		return memory.New(o)
	}
	if err != nil {
		return nil, err
	}
	if info, err := r.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
		s.logger.Warn("other users can read the saved states, and the seeds in them with which keys can be made to collide", "file", file.Path(), "mode", info.Mode().Perm())
	}
	began := time.Now()
	store, report, err := memory.Load(bufio.NewReaderSize(r, 1<<16), o)
	closed := r.Close()
	switch {
	case errors.Is(err, memory.ErrForeign), errors.Is(err, memory.ErrVersion), errors.Is(err, memory.ErrDamaged):
		aside, renamed := file.SetAside(time.Now())
		if renamed != nil && !writable.Full(renamed) {
			return nil, errors.Join(err, renamed)
		}
		s.refused, s.aside = true, renamed != nil
		s.logger.Error("the saved states are refused: all keys begin with full budgets, and no ban is in force", "file", file.Path(), "error", err, "kept_as", aside)
		return memory.New(o)
	case errors.Is(err, memory.ErrNoRoom):
		return nil, fmt.Errorf("%w: give store.memory.max_size more, or move %s away", err, file.Path())
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", file.Path(), err)
	case closed != nil:
		_ = store.Close() // it never fails
		return nil, closed
	}
	s.savedAt = report.SavedAt
	s.logger.Info("loaded the saved states", "states", report.States, "saved_at", report.SavedAt.UTC(), "file", file.Path(), "took", time.Since(began).Round(time.Millisecond))
	if report.Incomplete {
		s.logger.Warn("the last save was cut off, as by a crash: its states are from this save or the one before", "file", file.Path())
	}
	return store, nil
}

// Start saves the states until the returned function is called. The function saves once more, so
// nothing is lost if no request is under way any more.
func (s *States) Start() (stop func() error) {
	if s == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	return func() error {
		cancel()
		running.Wait()
		return s.finish()
	}
}

// Check checks whether a server with these settings could load and save its states. It returns
// what it found, or nothing without a file of states.
func Check(m *Settings) (string, error) {
	if m.File == "" {
		return "", nil
	}
	file, err := statefile.Check(m.File)
	if err != nil {
		return "", fmt.Errorf("store.memory.file: %w", err)
	}
	if file == nil {
		return "the file of states can be written, and does not exist yet", nil
	}
	defer file.Close()
	store, report, err := memory.Load(bufio.NewReader(file), options(m))
	if err != nil {
		return "", fmt.Errorf("store.memory.file: the server would not load these states: %w", err)
	}
	_ = store.Close() // it never fails
	return fmt.Sprintf("the file of states can be written, and has %d states, saved at %s", report.States, report.SavedAt.UTC().Format(time.RFC3339)), nil
}

// Beside returns the files that a server writes beside its file of states, by their names in messages.
func (m *Settings) Beside() map[string]string {
	if m.File == "" {
		return nil
	}
	all := map[string]string{"the overrides of store.memory.file": m.Overrides()}
	for of, path := range map[string]string{"store.memory.file": m.File, "the overrides of store.memory.file": m.Overrides()} {
		all["the lock of "+of], all["the next save of "+of] = path+statefile.LockSuffix, path+statefile.NewSuffix
	}
	return all
}

// Overrides returns the file of the overrides by call, empty without a file of states.
func (m *Settings) Overrides() string {
	if m.File == "" {
		return ""
	}
	return m.File + ".overrides"
}

// run saves until the context ends. A save that takes longer than the interval delays the next one.
func (s *States) run(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = s.save(false) // it has counted and logged the error
		}
	}
}

// save saves what has changed, or everything.
func (s *States) save(whole bool) error {
	began := time.Now()
	report, err := s.write(whole, began)
	took := time.Since(began)
	s.observe(took)

	s.mu.Lock()
	again := err == nil && s.failed != nil
	if s.failed = err; err == nil {
		s.savedAt = began
	}
	switch {
	case err != nil:
		s.counts.failed++
	case report.Bytes == 0:
		s.counts.unchanged++
	default:
		s.counts.saved++
	}
	late := took > s.every
	if late {
		s.counts.late++
	}
	s.counts.size = s.file.Size()
	s.counts.longest = max(s.counts.longest, report.LongestLock)
	s.mu.Unlock()

	if again {
		s.logger.Info("the states are saved again", "not_logged", s.hidden)
		s.complainAt, s.hidden = time.Time{}, 0
	}
	if err != nil || late {
		s.complain(err, began, took)
	}
	return err
}

// write writes the changes, or a new file if that is due.
func (s *States) write(whole bool, now time.Time) (report memory.Saved, err error) {
	if s.aside {
		if _, err := s.file.SetAside(now); err != nil {
			return report, err
		}
		s.aside = false
	}
	all := func(w io.Writer) error { report, err = s.saver.SaveAll(w); return err }
	changes := func(w io.Writer) error { report, err = s.saver.SaveChanges(w); return err }
	if whole || !s.file.CanAppend() {
		return report, s.file.Replace(all)
	}
	if s.file.ShouldCompact() && now.After(s.retryAt) {
		err := s.file.Replace(all)
		if err == nil || !s.file.CanAppend() {
			return report, err
		}
		s.retryAt = now.Add(saveRetry)
		s.logger.Error("the file of saved states cannot be written again, so it grows; changes are still saved", "error", err, "size", s.file.Size())
	}
	return report, s.file.Append(changes)
}

// complain logs that a save failed or took too long.
func (s *States) complain(err error, began time.Time, took time.Duration) {
	if began.Before(s.complainAt) {
		s.hidden++
		return
	}
	hidden := s.hidden
	s.complainAt, s.hidden = began.Add(complaintEvery), 0
	switch {
	case err != nil:
		why := "the states cannot be saved: a crash loses what has changed since the last save"
		if writable.Full(err) {
			why = "the disk is full, so the " + strings.TrimPrefix(why, "the ") + "; they are saved again when there is room"
		}
		at := "never"
		if last := s.last(); !last.IsZero() {
			at = last.UTC().Format(time.RFC3339)
		}
		s.logger.Error(why, "error", err, "last_saved", at, "not_logged", hidden)
	default:
		s.logger.Warn("saving the states takes longer than save_every: a crash loses more than that", "took", took.Round(time.Millisecond), "save_every", s.every, "not_logged", hidden)
	}
}

// last returns when the last successful save began.
func (s *States) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.savedAt
}

// Status is a line for the readiness probe, empty while saves succeed.
func (s *States) Status() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	failed, at := s.failed, s.savedAt
	s.mu.Unlock()
	switch {
	case failed == nil:
		return ""
	case at.IsZero():
		return fmt.Sprintf("states: never saved: %v", failed)
	}
	return fmt.Sprintf("states: not saved since %s: %v", at.UTC().Format(time.RFC3339), failed)
}

// finish saves for the last time, when no request is left that could change a state.
func (s *States) finish() error {
	if err := s.save(false); err != nil {
		return fmt.Errorf("sluice: the states are not saved: %w", err)
	}
	return nil
}

// Close gives the file up, in which all has been written and synced.
func (s *States) Close() error {
	if s == nil {
		return nil
	}
	return s.file.Close()
}

// figures returns the figures.
func (s *States) figures() saveCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// publish publishes the metrics of saves.
func (s *States) publish(m *telemetry.Metrics) {
	m.Counters("sluice_state_saves_total", "Saves of the states by outcome. A save writes nothing if no state has changed.",
		"outcome", []string{"saved", "unchanged", "failed"}, func(outcome string) float64 {
			c := s.figures()
			return float64(map[string]uint64{"saved": c.saved, "unchanged": c.unchanged, "failed": c.failed}[outcome])
		})
	m.Counter("sluice_state_late_saves_total", "Saves of the states that took longer than save_every.",
		func() float64 { return float64(s.figures().late) })
	m.Gauge("sluice_state_saved_timestamp_seconds", "When the last successful save of the states began, in seconds since 1970. A crash loses what came later.",
		func() float64 { return float64(max(s.last().UnixMicro(), 0)) / 1e6 })
	m.Gauge("sluice_state_file_bytes", "Size of the file of saved states.",
		func() float64 { return float64(s.figures().size) })
	m.Gauge("sluice_state_longest_lock_seconds", "The longest time for which a save has locked a part of the store.",
		func() float64 { return s.figures().longest.Seconds() })
	m.Gauge("sluice_state_refused", "Whether the saved states were refused when the server started: 1 if all keys began with full budgets for this reason.",
		func() float64 {
			if s.refused {
				return 1
			}
			return 0
		})
}
