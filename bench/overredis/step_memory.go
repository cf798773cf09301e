package overredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/peers"
	"github.com/sluicehq/sluice/checks/redistest"
)

// memoryLimit is a common limit: 100 per hour. Each key takes two units, so that its state holds fractions
// and lives until it is measured.
var memoryLimit = peers.Limit{Burst: 100, Every: 36 * time.Second, Window: time.Hour}

// memorySample is how many keys are measured one by one.
const memorySample = 100

// The metrics of memory. It has no cells.
const (
	metricUsed    = "memory-used"     // bytes of used_memory per key
	metricUsage   = "memory-usage"    // bytes by MEMORY USAGE, which omits the table of TTLs
	metricKeyText = "memory-key-text" // bytes of the text of the server's key
	metricValue   = "memory-value"    // bytes of its value, if it is a string
)

// measureMemory measures the memory of many keys.
func measureMemory(ctx context.Context, b *bench) error {
	for i, s := range subjects() {
		// Both clients keep the same states, and a script that does nothing keeps none.
		if s.name == sluiceGoName || s.name == minimalGoName || s.name == return1Name || !b.Wants("memory", s.name) {
			continue
		}
		if err := b.measureMemoryOf(ctx, i, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return b.flush(ctx)
}

func (b *bench) measureMemoryOf(ctx context.Context, i int, s subject) error {
	limiter, end, err := s.open(ctx, b.clients, memoryLimit)
	if err != nil {
		return err
	}
	if end != nil {
		defer func() { _ = end() }() // the server takes its state with it
	}
	// The first decisions add connections and scripts, which do not belong to a key.
	keys := keysOf(i, b.memoryKeys)
	if err := fill(ctx, limiter, keys[:b.memoryKeys/100]); err != nil {
		return err
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	before, err := b.footprint(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		if err := fill(ctx, limiter, keys); err != nil {
			return err
		}
	}
	after, err := b.footprint(ctx)
	if err != nil {
		return err
	}
	b.results.Set(metricUsed, s.name, figures.Once(float64(after-before)/float64(b.memoryKeys)))
	return b.sample(ctx, s.name)
}

// footprint returns the memory in use without connections, after it has stayed the same for a while: a
// table that grows exists twice until all entries have moved.
func (b *bench) footprint(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// In a full run, the server's cron, which moves entries, runs more often than this.
	tick := time.NewTicker(max(b.rest/8, 10*time.Millisecond))
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		used, err := b.usedMemory(ctx)
		if err != nil {
			return 0, err
		}
		// The server's bookkeeping varies by some hundred bytes.
		if last < 0 || max(used-last, last-used) > 4096 {
			since = time.Now()
		} else if time.Since(since) >= b.rest {
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

func (b *bench) usedMemory(ctx context.Context) (int64, error) {
	info, err := b.server.Info(ctx, "memory")
	if err != nil {
		return 0, err
	}
	used, err1 := strconv.ParseInt(info["used_memory"], 10, 64)
	connections, err2 := strconv.ParseInt(info["mem_clients_normal"], 10, 64)
	return used - connections, errors.Join(err1, err2)
}

// sample measures some of the keys.
func (b *bench) sample(ctx context.Context, subject string) error {
	conn, err := b.server.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var usage, text, value []float64
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
			return fmt.Errorf("key %s expired before it was measured", name)
		}
		usage = append(usage, float64(n))
		text = append(text, float64(len(name)))
		if length, err := conn.Do(ctx, "STRLEN", name); err == nil {
			n, _ := length.(int64)
			value = append(value, float64(n))
		} else if reply := redistest.Error(""); !errors.As(err, &reply) {
			return err // the key has the right type
		}
		b.keyText[subject] = name
	}
	b.results.Set(metricUsage, subject, figures.Summarize(usage))
	b.results.Set(metricKeyText, subject, figures.Summarize(text))
	if len(value) > 0 {
		b.results.Set(metricValue, subject, figures.Summarize(value))
	}
	return nil
}

// fill takes one unit of each key from a limiter.
func fill(ctx context.Context, l peers.RedisLimiter, keys []string) error {
	const workers = 64
	var wg sync.WaitGroup
	failed := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(keys) && failed[w] == nil; i += workers {
				admitted, err := l.Take(ctx, keys[i])
				if err == nil && !admitted {
					err = errors.New("denies what its limit admits")
				}
				failed[w] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
