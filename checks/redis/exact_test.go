package redis

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

const (
	exactProcesses = 8
	exactRounds    = 150
	exactCallers   = 8
	exactUnits     = 20
	exactAttempts  = 6 // for each process in a round; more together than there are units
)

// exactLimits are limits of exactUnits that give nothing back for as long as the test
// lasts. Rounds take turns.
var exactLimits = []*sluice.Limit{
	sluice.MustLimit("bucket", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: exactUnits}),
	sluice.MustLimit("leaky", sluice.LeakyBucket{Rate: sluice.PerDay(1), Queue: exactUnits - 1, Undelayed: exactUnits - 1}),
	sluice.MustLimit("opened", sluice.FixedWindow{Rate: sluice.PerDay(exactUnits), Opened: true}),
	sluice.MustLimit("month", sluice.FixedWindow{Rate: sluice.PerDay(exactUnits), Calendar: sluice.CalendarMonth}),
	sluice.MustLimit("cells", sluice.SlidingWindow{Rate: sluice.PerDay(exactUnits)}),
	sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerDay(exactUnits)}),
	sluice.MustLimit("leases", sluice.Concurrency{Max: exactUnits, TTL: time.Hour}),
}

// attempts is one of the processes that share the limits: its clock is ahead by
// SLUICE_SKEW. For each number of a round that it reads, it prints how many units it was given.
func attempts() error {
	skew, err := time.ParseDuration(os.Getenv("SLUICE_SKEW"))
	if err != nil {
		return err
	}
	store, err := rueidisstore.New(rueidis.ClientOption{
		InitAddress: []string{os.Getenv("SLUICE_REDIS")}, DisableRetry: true,
	}, redisstore.Options{
		Clock: func() int64 { return time.Now().Add(skew).UnixMicro() },
	})
	if err != nil {
		return err
	}
	defer store.Close()
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		round, err := strconv.Atoi(in.Text())
		if err != nil {
			return err
		}
		admitted, err := attemptRound(store, round)
		if err != nil {
			return err
		}
		if err := out.Encode(admitted); err != nil {
			return err
		}
	}
	return nil
}

// attemptRound requests units of the round's key from several goroutines at once:
// in single calls, and in batches with a limit that has room for all.
func attemptRound(store *redisstore.Store, round int) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	roomy := sluice.MustLimit("roomy", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1_000_000})
	l, key := exactLimits[round%len(exactLimits)], sluice.StringKey(fmt.Sprint("round ", round))
	var admitted, left atomic.Int64
	left.Store(exactAttempts)
	failed := make(chan error, exactCallers)
	var all sync.WaitGroup
	for range exactCallers {
		all.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				r := sluice.Request{Limit: l, Key: key, Cost: 1, Member: uint64(os.Getpid())<<20 | uint64(n+1)}
				out := make([]sluice.Decision, 2)
				var err error
				if n%2 == 0 {
					out[0], err = store.Decide(ctx, r)
				} else {
					err = store.DecideAll(ctx, []sluice.Request{r, {Limit: roomy, Key: key, Cost: 1}}, out)
				}
				if err != nil {
					failed <- err
					return
				}
				if out[0].Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return admitted.Load(), <-failed
}

// TestExactAcrossProcesses: in 8 processes that share one server, with clocks up to an
// hour apart, each round of a fresh key admits exactly the limit.
func TestExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	processes := make([]*child, exactProcesses)
	for i := range processes {
		skew := time.Duration(i-exactProcesses/2) * time.Hour / (exactProcesses / 2)
		processes[i] = startChild(t, "attempts", "SLUICE_REDIS="+server.Addr(), "SLUICE_SKEW="+skew.String())
	}
	for round := range redistest.Times(t, exactRounds) {
		var admitted atomic.Int64
		var all sync.WaitGroup
		for _, p := range processes {
			all.Go(func() {
				var n int64
				if err := p.request(round, &n); err != nil {
					t.Error(err)
				}
				admitted.Add(n)
			})
		}
		all.Wait()
		if n := admitted.Load(); n != exactUnits || t.Failed() {
			t.Fatalf("round %d, %v: %d admitted, want %d", round, exactLimits[round%len(exactLimits)], n, exactUnits)
		}
	}
	if keys, err := server.KeysWithoutTTL(t.Context()); err != nil || len(keys) > 0 {
		t.Errorf("keys without a time to live: %q, %v", keys, err)
	}
}

// child is a process of its own that a test has started.
type child struct {
	in     io.WriteCloser
	out    *json.Decoder
	cmd    *exec.Cmd
	stderr bytes.Buffer
	killed bool // by the test, so that it ends with an error
}

// startChild runs one of children as a process of its own until the test ends.
func startChild(t *testing.T, name string, env ...string) *child {
	t.Helper()
	p := &child{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(append(os.Environ(), childEnv+"="+name), env...)
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		if err := p.cmd.Wait(); err != nil && !p.killed {
			t.Errorf("a process ended with %v: %s", err, p.stderr.String())
		}
	})
	return p
}

// request sends a line and reads the answer.
func (p *child) request(line, answer any) error {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return err
	}
	if err := p.out.Decode(answer); err != nil {
		return fmt.Errorf("%w: %s", err, p.stderr.String())
	}
	return nil
}
