package protocols

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/checks/redistest"
)

// overCluster is a server over the nodes of a cluster.
func overCluster(c *redistest.Cluster) string {
	return fmt.Sprintf(`listen: {proxy: "off", api: '127.0.0.1:0', admin: '127.0.0.1:0', resp: '127.0.0.1:0'}
store: {redis: {addresses: ['%s'], cluster: true, deadline: 10s}}
rules: [{name: any, match: {path: /any}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/d}}]
`, strings.Join(c.Addrs(), "', '"))
}

// slotOf returns the slot of a key of CL.THROTTLE: the CRC-16 of the key, which is the hash tag in Redis.
func slotOf(key string) int {
	crc := uint16(0)
	for _, c := range []byte(key) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % redistest.Slots
}

// keyOn returns a key whose slot passes a test.
func keyOn(name string, ok func(slot int) bool) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint(name, i); ok(slotOf(key)) {
			return key
		}
	}
}

// A throttle is one CL.THROTTLE. Its units come back so slowly that a test sees none of them.
type throttle struct {
	key   string
	burst int64
}

// throttles sends commands in one pipeline, and returns the replies, each an error or whether the
// command is limited, its limit, and what remains.
func (p *pipelined) throttles(ctx context.Context, commands []throttle) ([]string, error) {
	pipe := p.client.Pipeline()
	for _, c := range commands {
		pipe.Do(ctx, "CL.THROTTLE", c.key, c.burst, 1, 10_000)
	}
	all, err := pipe.Exec(ctx)
	var replies []string
	for _, one := range all {
		switch got, err := one.(*redis.Cmd).Slice(); {
		case redis.HasErrorPrefix(err, "Cell error"):
			replies = append(replies, err.Error())
		case err != nil:
			return nil, err
		default:
			replies = append(replies, fmt.Sprint(got[:3]...))
		}
	}
	if redis.HasErrorPrefix(err, "Cell error") {
		err = nil
	}
	return replies, err
}

// want returns the reply to a command that is the nth about its key.
func (c throttle) want(n int64) string {
	if n > c.burst+1 {
		return fmt.Sprint(1, c.burst+1, 0)
	}
	return fmt.Sprint(0, c.burst+1, c.burst+1-n)
}

// Pipelines of CL.THROTTLE over a cluster are answered in their order, and each key is counted exactly: with keys in all
// slots, while a slot moves, and while a master hands over to its replica. While a master is dead, the other masters'
// keys are decided as before, and afterwards all keys are.
func TestThrottlePipelinesOverACluster(t *testing.T) { //nolint:tparallel // each part changes the cluster for the next one
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1, redistest.Config("cluster-require-full-coverage no"))
	ctx := redistest.Within(t, 2*longest)
	p := pipelines(t, overCluster(c))

	t.Run("all slots", func(t *testing.T) {
		keys, missing := make([]string, redistest.Slots), redistest.Slots
		for i := 0; missing > 0; i++ {
			key := fmt.Sprint("all", i)
			if at := slotOf(key); keys[at] == "" {
				keys[at] = key
				missing--
			}
		}
		var commands []throttle
		for i, key := range keys {
			commands = append(commands, throttle{key, int64(i % 5)})
			if i%100 == 0 { // some keys come twice, far apart and close together
				commands = append(commands, throttle{key, int64(i % 5)}, throttle{keys[i/2], int64(i / 2 % 5)})
			}
		}
		replies, err := p.throttles(ctx, commands)
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]int64{}
		for i, command := range commands {
			used[command.key]++
			if want := command.want(used[command.key]); replies[i] != want {
				t.Fatalf("reply %d, about %s: %s, want %s", i, command.key, replies[i], want)
			}
		}
		masters, err := c.Masters(ctx)
		if err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for _, s := range masters {
			n, err := s.Int(ctx, "DBSIZE")
			if err != nil {
				t.Fatal(err)
			}
			others, err := s.Do(ctx, "KEYS", "sluice{%.*") // about the server itself
			if err != nil {
				t.Fatal(err)
			}
			list, _ := others.([]any)
			total += n - int64(len(list))
		}
		if total != redistest.Slots {
			t.Errorf("the masters hold %d keys", total)
		}
	})

	// One client sends pipelines without a pause: its keys are on all masters, and one of them in the slot that moves.
	masters, err := c.Masters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range masters {
		keys = append(keys, keyOn("on master ", func(slot int) bool { return slot*len(masters)/redistest.Slots == i }))
	}
	var commands []throttle
	for range 20 {
		for i, key := range keys {
			commands = append(commands, throttle{key, int64(1_000_000 + i)})
		}
	}
	used := make([]int64, len(keys))
	const killed = 2 // the master that dies, and its key
	var dead, revived atomic.Bool
	var lost, sent atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			replies, err := p.throttles(ctx, commands)
			if err != nil {
				t.Errorf("a pipeline fails: %v", err)
				return
			}
			for i, reply := range replies {
				at := i % len(keys)
				if at == killed && dead.Load() {
					if lost.Add(1); !strings.HasPrefix(reply, "Cell error") && !strings.Contains(reply, fmt.Sprint(" ", commands[i].burst+1)) {
						t.Errorf("without the store, a reply is %s", reply) // of another command
						return
					}
					continue
				}
				if at == killed && revived.CompareAndSwap(true, false) { // what the replica has
					var no, limit, remaining int64
					if _, err := fmt.Sscan(reply, &no, &limit, &remaining); err != nil {
						t.Errorf("after the takeover: %s", reply)
						return
					}
					used[at] = limit - remaining - 1
				}
				used[at]++
				if want := commands[i].want(used[at]); reply != want {
					t.Errorf("a reply about %s: %s, want %s", keys[at], reply, want)
					return
				}
			}
			sent.Add(1)
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	further := func() { // pipelines, which begin and end after the call
		t.Helper()
		for from := sent.Load(); sent.Load() < from+3; <-time.After(time.Millisecond) {
			select {
			case <-stopped:
				t.FailNow()
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			default:
			}
		}
	}
	further()

	t.Run("a slot moves", func(t *testing.T) {
		slot := slotOf(keys[0])
		fresh := keyOn("fresh ", func(at int) bool { return at == slot })
		m, err := c.BeginMigration(ctx, slot, masters[1])
		if err != nil {
			t.Fatal(err)
		}
		further()
		replies, err := p.throttles(ctx, slices.Repeat([]throttle{{fresh, 1}}, 3)) // the new owner has this key first
		if err != nil || !slices.Equal(replies, []string{"0 2 1", "0 2 0", "1 2 0"}) {
			t.Errorf("a new key in the slot: %q, %v", replies, err)
		}
		for moved := 1; moved > 0; {
			if moved, err = m.Move(ctx, 10); err != nil {
				t.Fatal(err)
			}
		}
		further()
		if err := m.End(ctx); err != nil {
			t.Fatal(err)
		}
		further()
	})

	t.Run("a master hands over", func(t *testing.T) {
		if _, err := c.Failover(ctx, masters[1]); err != nil {
			t.Fatal(err)
		}
		further()
	})

	t.Run("a master dies", func(t *testing.T) {
		dead.Store(true)
		if err := c.KillMaster(ctx, masters[killed]); err != nil {
			t.Fatal(err)
		}
		if lost.Load() == 0 {
			t.Error("no command was sent while the master was dead")
		}
		for { // until the server has found the new master
			replies, err := p.throttles(ctx, []throttle{{keyOn("late ", func(slot int) bool { return slot == slotOf(keys[killed]) }), 9}})
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(replies[0], "0 10 8") {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			case <-time.After(5 * time.Millisecond):
			}
		}
		further()
		revived.Store(true)
		dead.Store(false)
		further()
	})
}
