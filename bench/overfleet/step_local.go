package overfleet

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// The metrics of the step local.
const (
	metricLocal  = "local"        // ns of a decision on granted units
	metricAllocs = "local-allocs" // allocations of a decision
)

// roomyTerms are a limit that admits what no machine requests, and grants much of it.
func roomyTerms(name string) fleet.Terms {
	return fleet.Terms{Name: name, Algorithm: "bucket", Count: 1e9, Period: time.Second}
}

// measureLocal measures decisions on granted units beside decisions in memory, about the same key, in one
// goroutine of this process. The subjects take turns.
func (b *bench) measureLocal(context.Context) (err error) {
	if !b.wants("local", fleet.Hybrid) && !b.wants("local", fleet.Memory) {
		return nil
	}
	backend, err := rueidisstore.New(rueidis.ClientOption{InitAddress: b.route().Addrs}, redisstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	granted, err := hybrid.New(backend, hybrid.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, granted.Close()) }()
	inMemory, err := memory.New(memory.Options{})
	if err != nil {
		return err
	}
	limit, err := hybridly(roomyTerms(b.name("local")), fleet.Hybrid).Limit()
	if err != nil {
		return err
	}
	ctx, key := context.Background(), sluice.StringKey(figures.Key('l', 1))
	takers := map[string]driver.Taker{fleet.Hybrid: granted, fleet.Memory: inMemory}
	turn := func(subject string, n int) error {
		s := takers[subject]
		for range n {
			if d, err := s.Take(ctx, limit, key, 1); err != nil || !d.Allowed {
				return errors.Join(errors.New("the local step was denied"), err)
			}
		}
		return nil
	}
	for begun := time.Now(); time.Since(begun) < b.length; { // until there is a grant
		if err := turn(fleet.Hybrid, 1000); err != nil {
			return err
		}
	}
	const rounds = 20
	values := map[string][]float64{}
	for range rounds {
		for _, subject := range []string{fleet.Memory, fleet.Hybrid} {
			runtime.GC()
			begun := time.Now()
			if err := turn(subject, b.local); err != nil {
				return err
			}
			values[subject] = append(values[subject], float64(time.Since(begun))/float64(b.local))
		}
	}
	for subject := range takers {
		if !b.wants("local", subject) {
			continue
		}
		b.results.Set(metricLocal, subject, figures.Summarize(values[subject]))
		// The average is rounded down: the synchronisation in the background allocates now and then.
		b.results.Set(metricAllocs, subject, figures.Once(testing.AllocsPerRun(b.local/10, func() { err = errors.Join(err, turn(subject, 1)) })))
	}
	return err
}
