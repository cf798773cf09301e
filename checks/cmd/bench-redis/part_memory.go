package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice/checks/figures"
	"github.com/sluicehq/sluice/checks/peers"
	"github.com/sluicehq/sluice/checks/redispeers"
)

// memoryLimit is an everyday limit: 100 an hour, of which one was taken. Its
// states live long enough to be weighed.
var memoryLimit = peers.Limit{Burst: 100, Every: 36 * time.Second, Window: time.Hour}

// memorySample is how many keys are looked at one by one.
const memorySample = 100

// The metrics of memory, which has no cells.
const (
	metricUsed    = "memory-used"     // bytes of used_memory for each key asked for
	metricUsage   = "memory-usage"    // bytes that MEMORY USAGE tells, which leaves out the table of TTLs
	metricKeyText = "memory-key-text" // bytes of the text of the server's key
)

// measureMemory weighs the states of many keys.
func measureMemory(ctx context.Context, b *bench) error {
	for i, s := range subjects() {
		// Both clients keep the same, and a script that does nothing keeps nothing.
		if s.name == sluiceGoName || s.name == minimalGoName || s.name == return1Name || !b.wants("memory", s.name) {
			continue
		}
		if err := b.measureMemoryOf(ctx, i, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return b.flush(ctx)
}

func (b *bench) measureMemoryOf(ctx context.Context, i int, s subject) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	limiter, end, err := s.open(ctx, b.clients, memoryLimit)
	if err != nil {
		return err
	}
	if end != nil {
		defer func() { _ = end() }() // what it holds is gone with the server
	}
	before, err := b.footprint(ctx)
	if err != nil {
		return err
	}
	if err := fill(ctx, limiter, keysOf(i, b.memoryKeys)); err != nil {
		return err
	}
	after, err := b.footprint(ctx)
	if err != nil {
		return err
	}
	b.results.Set(metricUsed, s.name, figures.Once(float64(after-before)/float64(b.memoryKeys)))
	return b.sample(ctx, s.name)
}

// footprint returns the memory in use, without what connections take, once it
// stays the same: tables that grow take room twice until all entries have moved.
func (b *bench) footprint(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// Longer than a turn of the server's cron, which moves entries.
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	last := int64(-1)
	for {
		info, err := b.server.Info(ctx, "memory")
		if err != nil {
			return 0, err
		}
		used, err1 := strconv.ParseInt(info["used_memory"], 10, 64)
		ofClients, err2 := strconv.ParseInt(info["mem_clients_normal"], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		used -= ofClients
		// The server's own books move by some hundred bytes.
		if last >= 0 && max(used-last, last-used) < 4096 {
			return used, nil
		}
		last = used
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the server's memory does not come to rest: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// sample looks at some of the keys.
func (b *bench) sample(ctx context.Context, subject string) error {
	conn, err := b.server.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var usage, text []float64
	for range memorySample {
		key, err := conn.Do(ctx, "RANDOMKEY")
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return errors.New("it keeps no key")
		}
		bytes, err := conn.Do(ctx, "MEMORY", "USAGE", name, "SAMPLES", "0")
		if err != nil {
			return err
		}
		n, ok := bytes.(int64)
		if !ok {
			return fmt.Errorf("key %s went while it was looked at", name)
		}
		usage = append(usage, float64(n))
		text = append(text, float64(len(name)))
		b.keyText[subject] = name
	}
	b.results.Set(metricUsage, subject, figures.Summarize(usage))
	b.results.Set(metricKeyText, subject, figures.Summarize(text))
	return nil
}

// fill has a limiter take one unit of each key.
func fill(ctx context.Context, l redispeers.Limiter, keys []string) error {
	const workers = 16
	var wg sync.WaitGroup
	failed := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(keys) && failed[w] == nil; i += workers {
				admitted, err := l.Take(ctx, keys[i])
				if err == nil && !admitted {
					err = errors.New("denies the first unit of a key")
				}
				failed[w] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
