package overrides

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

const (
	// every is how often changes of other servers are read.
	every = 250 * time.Millisecond
	// patience bounds a call of the store.
	patience = 2 * time.Second
)

// keeper keeps the records of overrides.
type keeper interface {
	// PutRecords and RecordsOf are as in redisstore.Records.
	PutRecords(ctx context.Context, records []redisstore.Record) (found []bool, err error)
	RecordsOf(ctx context.Context, names []string) ([]redisstore.Record, error)
	// follow applies what has changed since the last call. It is called by one goroutine at a time.
	follow(ctx context.Context, b *Book) error
	// sweep forgets records that have ended.
	sweep(now time.Time)
	close() error
}

// mostJoined is how many changes of several calls are kept together.
const mostJoined = 256

// group is the changes of calls that are kept together: all or none of them.
type group struct {
	records []redisstore.Record
	found   []bool // set, as err is, when done is closed
	err     error
	done    chan struct{}
}

// poll is a read of changes, which several calls may wait for.
type poll struct {
	err  error // set when done is closed
	done chan struct{}
}

// Book has all overrides by call. Make it with OpenShared or OpenLocal, let Run run, and end it with Close. All methods are safe for
// concurrent use.
type Book struct {
	// Table has the overrides in force.
	Table  *policy.OverrideTable
	keeper keeper
	kept   string // redis, file or memory
	logger *slog.Logger

	putting   chan struct{} // full while a group is put
	following chan struct{} // full while somebody follows

	mu      sync.Mutex
	waiting *group    // of calls; nil if none waits
	next    *poll     // waits for an earlier one; nil if none does
	failed  error     // of the last read
	since   time.Time // of the failure
	strange bool      // a record is not of this version
}

// newBook returns a book over a table.
func newBook(kept string, t *policy.OverrideTable, k keeper, logger *slog.Logger, m *telemetry.Metrics) *Book {
	b := &Book{Table: t, keeper: k, kept: kept, logger: logger, putting: make(chan struct{}, 1), following: make(chan struct{}, 1)}
	m.Gauge("sluice_overrides", "Overrides by call that are in force, and keys with units ahead.", func() float64 { return float64(b.Table.Len()) })
	m.Gauge("sluice_overrides_bytes", "Memory that the keys of overrides by call take, in bytes.", func() float64 { return float64(b.Table.Bytes()) })
	m.Gauge("sluice_overrides_stale", "Whether overrides by call could not be read from the store the last time: 1 while changes of other servers may be missing.",
		func() float64 {
			if b.Status() != "" {
				return 1
			}
			return 0
		})
	return b
}

// Change makes changes, all or none. It returns for each whether there was an override. The overrides are kept, and in force here, when
// it returns; they are in force later if the store is slow. Other servers have them in about a quarter of a second. Calls that wait
// for an earlier one are kept together: if that fails, all of them get the error.
func (b *Book) Change(ctx context.Context, changes []Override) (found []bool, err error) {
	records := make([]redisstore.Record, len(changes))
	for i := range changes {
		records[i] = recordOf(&changes[i])
	}
	b.mu.Lock()
	g := b.waiting
	first := g == nil || len(g.records)+len(records) > mostJoined
	if first {
		g = &group{done: make(chan struct{})}
		b.waiting = g
	}
	from := len(g.records)
	g.records = append(g.records, records...)
	b.mu.Unlock()
	if first {
		b.put(context.WithoutCancel(ctx), g)
		close(g.done)
	}
	if <-g.done; g.err != nil {
		return nil, g.err
	}
	return g.found[from : from+len(records)], nil
}

// put makes the changes of a group, as soon as earlier ones are kept.
func (b *Book) put(ctx context.Context, g *group) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case b.putting <- struct{}{}:
		b.begin(g)
		g.found, g.err = b.keeper.PutRecords(ctx, g.records)
		<-b.putting
	case <-ctx.Done():
		b.begin(g)
		g.err = fmt.Errorf("earlier changes are not kept yet: %w", ctx.Err())
	}
	if g.err == nil {
		_ = b.follow(ctx) // they are kept; Run reads them as soon as that is possible
	}
}

// begin ends the time in which calls join a group.
func (b *Book) begin(g *group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == g {
		b.waiting = nil
	}
}

// Update changes the override of a key to what a function makes of it; Removed if there is none, before and after. If another server changes
// the override meanwhile, the function is called again. If it returns an error, nothing changes, and Update returns the error. If a reply of
// the store is lost, Update looks whether its change is there. An error that wraps sluice.ErrUnknownOutcome means that it may be.
func (b *Book) Update(ctx context.Context, rule string, k sluice.Key, change func(before Override) (Override, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var put []string // with an unknown outcome
	var was redisstore.Record
	var lost error
	for {
		kept, err := b.keeper.RecordsOf(ctx, []string{nameOf(rule, k)})
		switch {
		case err != nil && lost == nil: // a read changes nothing, whatever the error reports about it
			return errors.New(err.Error())
		case err != nil:
			return errors.Join(lost, err)
		case lost == nil, kept[0].Removed == was.Removed && kept[0].Text == was.Text:
			was = kept[0] // and the next put succeeds only if no earlier one does
		case !kept[0].Removed && slices.Contains(put, kept[0].Text):
			_ = b.follow(ctx) // as in Change
			return nil
		default:
			return lost // a later change may contain this one
		}
		before, ok := read(&was)
		if !ok || !before.Until.IsZero() && !before.Until.After(time.Now()) {
			before = Override{Rule: rule, Key: k, Removed: true}
		}
		after, err := change(before)
		if err != nil {
			return errors.Join(lost, err)
		}
		record := recordOf(&after)
		record.Was = &was
		switch _, err := b.keeper.PutRecords(ctx, []redisstore.Record{record}); {
		case errors.Is(err, redisstore.ErrRecordChanged):
		case errors.Is(err, sluice.ErrUnknownOutcome):
			put, lost = append(put, record.Text), err
		case err != nil:
			return err
		default:
			_ = b.follow(ctx)
			return nil
		}
	}
}

// Get returns the override of a key; Removed if there is none.
func (b *Book) Get(ctx context.Context, rule string, k sluice.Key) (Override, error) {
	all, err := b.of(ctx, rule, []sluice.Key{k})
	if err != nil || len(all) == 0 {
		return Override{Rule: rule, Key: k, Removed: true}, err
	}
	return all[0], nil
}

// List returns up to most overrides of a rule, of which a part of the key begins with a prefix. The first page is after the zero Key,
// and the next page after the last key; next is that key, and more says that there may be a page.
func (b *Book) List(ctx context.Context, rule, prefix string, after sluice.Key, most int) (page []Override, next sluice.Key, more bool, err error) {
	keys := b.Table.Page(rule, prefix, after, most)
	if len(keys) > 0 {
		next = keys[len(keys)-1]
	}
	page, err = b.of(ctx, rule, keys)
	return page, next, len(keys) == most, err
}

// of returns the overrides of some keys that exist.
func (b *Book) of(ctx context.Context, rule string, keys []sluice.Key) (all []Override, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = nameOf(rule, k)
	}
	records, err := b.keeper.RecordsOf(ctx, names)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for i := range records {
		if o, ok := read(&records[i]); ok && !o.Removed && (o.Until.IsZero() || o.Until.After(now)) {
			all = append(all, o)
		}
	}
	return all, nil
}

// Rules returns the rules that have overrides.
func (b *Book) Rules() []string { return b.Table.Rules() }

// KeptIn says where the overrides are kept: redis, file, or memory if they end with the server.
func (b *Book) KeptIn() string { return b.kept }

// Run reads changes of other servers, and ends overrides at their time, until the context ends.
func (b *Book) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if b.Table.Expire(now) > 0 {
				b.keeper.sweep(now)
			}
			var own poll // not a caller's, which ends with the caller's patience
			if b.read(ctx, &own); ctx.Err() == nil {
				b.note(own.err)
			}
		}
	}
}

// follow applies what has changed. Calls that wait for an earlier poll share the next one.
func (b *Book) follow(ctx context.Context) error {
	b.mu.Lock()
	p := b.next
	first := p == nil
	if first {
		p = &poll{done: make(chan struct{})}
		b.next = p
	}
	b.mu.Unlock()
	if first {
		b.read(ctx, p)
		close(p.done)
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reads changes as soon as an earlier poll is over. From then on, no call joins this one.
func (b *Book) read(ctx context.Context, p *poll) {
	select {
	case b.following <- struct{}{}:
		defer func() { <-b.following }()
	case <-ctx.Done():
		p.err = ctx.Err()
	}
	b.mu.Lock()
	if b.next == p {
		b.next = nil
	}
	b.mu.Unlock()
	if p.err == nil {
		p.err = b.keeper.follow(ctx, b)
	}
}

// note logs and keeps whether changes can be read.
func (b *Book) note(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil && b.failed == nil:
		b.since = time.Now()
		b.logger.Error("the overrides by call cannot be read: the last known ones stay in force", "error", err)
	case err == nil && b.failed != nil:
		b.logger.Info("the overrides by call are read again", "overrides", b.Table.Len())
	}
	b.failed = err
}

// Status is a line for the readiness probe, empty while changes are read.
func (b *Book) Status() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		return ""
	}
	return fmt.Sprintf("overrides: not read since %s, the last known ones stay in force", b.since.UTC().Format(time.RFC3339))
}

// apply puts records into a table, which is not always the one in force. It returns the names of records that have ended.
func (b *Book) apply(to *policy.OverrideTable, records []redisstore.Record, now time.Time) (ended []string) {
	for i := range records {
		o, ok := read(&records[i])
		var err error
		switch {
		case !ok:
			b.complain("it is not of this version")
		case o.Removed || !o.Until.IsZero() && !o.Until.After(now):
			to.Remove(o.Rule, o.Key)
			ended = append(ended, records[i].Name)
		default:
			if err = to.Set(o.Rule, o.Key, o.Terms, o.Until); err != nil {
				b.complain(err.Error())
			}
		}
	}
	return ended
}

// complain logs once that a record is not applied.
func (b *Book) complain(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.strange {
		b.strange = true
		b.logger.Error("a record of the store is not applied as an override; later ones are not logged", "error", why)
	}
}

// Close ends the book. Run must have ended.
func (b *Book) Close() error {
	if b == nil {
		return nil
	}
	return b.keeper.close()
}
