package overrides

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// Space is the space of the records of overrides.
const Space = "records"

// Records are the records of Space, as redisstore.Records has them.
type Records interface {
	PutRecords(ctx context.Context, records []redisstore.Record) ([]bool, error)
	RecordsSince(ctx context.Context, m redisstore.RecordMark, most int) (redisstore.RecordPage, error)
	RecordsOf(ctx context.Context, names []string) ([]redisstore.Record, error)
}

// page is how many records are read at once.
const page = 2000

// shared keeps overrides in Redis.
type shared struct {
	Records
	// Only follow uses these.
	mark redisstore.RecordMark
	// doubtful means that a read failed: another Redis may have taken over, which lacks changes that were read.
	doubtful bool
}

// firstPatience is how long a server that starts reads overrides, while pages arrive, before it goes on without the rest. A million
// take some five seconds on a small machine.
const firstPatience = 30 * time.Second

// OpenShared returns the book of the overrides in Redis, in a table. It reads them first. If that fails, Status says so, and Run tries
// again.
func OpenShared(ctx context.Context, r Records, t *policy.OverrideTable, logger *slog.Logger, m *telemetry.Metrics) *Book {
	b := newBook("redis", t, &shared{Records: r}, logger, m)
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	b.note(b.follow(ctx))
	return b
}

// follow reads the changes. After a failure it reads the changes first, and then all records.
func (s *shared) follow(ctx context.Context, b *Book) error {
	again, err := s.changes(ctx, b)
	if err == nil && (again || s.doubtful) {
		err = s.all(ctx, b)
	}
	s.doubtful = err != nil && ctx.Err() == nil // at the end of the caller's patience, the rest is read later
	return err
}

// changes applies the changes since the last call. It reports whether it cannot know all of them.
func (s *shared) changes(ctx context.Context, b *Book) (again bool, err error) {
	for p, err := range s.pages(ctx, s.mark) {
		if err != nil || p.Again {
			return p.Again, err
		}
		b.apply(b.Table, p.Records, time.Now())
		s.mark = p.Next
	}
	return false, nil
}

// pages reads the records since a mark. While the caller applies a page, the next one is read. A page with Again, or an error, is
// the last one.
func (s *shared) pages(ctx context.Context, m redisstore.RecordMark) iter.Seq2[redisstore.RecordPage, error] {
	return func(yield func(redisstore.RecordPage, error) bool) {
		type result struct {
			p   redisstore.RecordPage
			err error
		}
		var r result
		r.p, r.err = s.since(ctx, m)
		for more := true; more; {
			next, after := make(chan result, 1), r.p.Next
			if more = r.err == nil && r.p.More && !r.p.Again; more {
				go func() {
					p, err := s.since(ctx, after)
					next <- result{p, err}
				}()
			}
			if !yield(r.p, r.err) {
				return
			}
			if more {
				r = <-next
			}
		}
	}
}

// since reads a page.
func (s *shared) since(ctx context.Context, m redisstore.RecordMark) (redisstore.RecordPage, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.RecordsSince(ctx, m, page)
}

// errLost is the error of a read during which data were lost.
var errLost = errors.New("overrides: the store has lost records while they were read")

// all reads all records into another table, which then replaces the table in force.
func (s *shared) all(ctx context.Context, b *Book) error {
	table, mark := policy.NewOverrideTable(), redisstore.RecordMark{}
	for p, err := range s.pages(ctx, mark) {
		switch {
		case err != nil:
			return err
		case p.Again:
			return errLost // the next read begins again: not at once, because it may get no further
		}
		b.apply(table, p.Records, time.Now())
		mark = p.Next
	}
	b.Table.Replace(table)
	s.mark = mark
	return nil
}

func (*shared) sweep(time.Time) {}
func (*shared) close() error    { return nil }
