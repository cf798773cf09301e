package remote

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/redisstore"
)

// records are the records of a space. Until the first connection, calls fail.
type records struct {
	calls *calls
	space string
	// patience is the deadline of decisions. They share connections with these calls, and the client of Redis closes a
	// connection on which a call is late. So each call has at least as much time as a decision, also after its caller
	// has left it.
	patience time.Duration
}

// about makes a call about records. It returns no later than its context ends.
func about[T any](ctx context.Context, r records, call func(ctx context.Context, s *redisstore.Records) (T, error)) (T, error) {
	var none T
	s, began, err := r.calls.begin()
	if err != nil {
		return none, err
	}
	if until, ok := ctx.Deadline(); !ok || until.Sub(began) >= r.patience {
		return call(ctx, s.Records(r.space))
	}
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience)
		defer cancel()
		value, err := call(patient, s.Records(r.space))
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, fmt.Errorf("the store has not answered in time: %w: %w", sluice.ErrUnknownOutcome, ctx.Err())
	}
}

// PutRecords keeps records that all servers share, or removes them.
func (r records) PutRecords(ctx context.Context, all []redisstore.Record) ([]bool, error) {
	all = slices.Clone(all) // the caller may leave the call
	return about(ctx, r, func(ctx context.Context, s *redisstore.Records) ([]bool, error) { return s.PutRecords(ctx, all) })
}

// RecordsSince returns a page of the records that changed.
func (r records) RecordsSince(ctx context.Context, m redisstore.RecordMark, most int) (redisstore.RecordPage, error) {
	return about(ctx, r, func(ctx context.Context, s *redisstore.Records) (redisstore.RecordPage, error) {
		return s.RecordsSince(ctx, m, most)
	})
}

// RecordsOf returns the records of names.
func (r records) RecordsOf(ctx context.Context, names []string) ([]redisstore.Record, error) {
	names = slices.Clone(names)
	return about(ctx, r, func(ctx context.Context, s *redisstore.Records) ([]redisstore.Record, error) {
		return s.RecordsOf(ctx, names)
	})
}
