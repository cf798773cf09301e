//go:build linux

package servers

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

// TestMemoryOfTheProcess: the memory of the process is the memory of its states, and a bounded part more: while a
// million keys come, and afterwards. With SLUICE_SOAK, five millions come.
func TestMemoryOfTheProcess(t *testing.T) {
	if n := os.Getenv("GOGC") + os.Getenv("GOMEMLIMIT"); n != "" {
		t.Fatal("unset GOGC and GOMEMLIMIT: they replace what this test measures")
	}
	for _, row := range []struct {
		name string
		file bool
		more int64 // quarters of the states
	}{
		{"without a file", false, 5},
		{"with a file", true, 6},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			store := "store: {memory: {max_size: 2GiB}}\n"
			if row.file {
				store = fmt.Sprintf("store: {memory: {max_size: 2GiB, file: '%s', save_every: 1s}}\n", filepath.Join(dir, "states"))
			}
			s := serveIn(t, dir, "listen: {proxy: \"off\", resp: '127.0.0.1:0'}\n"+store+"rules: []\n")
			keys := 1_000_000
			if redistest.Times(t, 3) > 3 {
				keys = 5_000_000
			}
			var states, most int64 // most: with the copies of tables that grow
			fill(t, s.Address("resp"), keys, func() {
				states = int64(s.number("sluice_store_bytes"))
				most = max(most, states)
			})
			promised := func(states int64) int64 { return states/4*row.more + 48<<20 }
			now, peak := s.memory("VmRSS"), s.memory("VmHWM")
			t.Logf("%d keys: states %d MiB, process %d MiB, of %d MiB; at their peak %d MiB, %d MiB, of %d MiB", keys,
				states>>20, now>>20, promised(states)>>20, most>>20, peak>>20, promised(most)>>20)
			if now > promised(states) || peak > promised(most) {
				t.Errorf("the process takes %d bytes for states of %d, and has taken %d for %d", now, states, peak, most)
			}
		})
	}
}

// fill takes a unit of each of n keys, a multiple of 500, as a client of Redis that sends many commands at once. It calls between now and then.
func fill(t *testing.T, address string, n int, between func()) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const batch = 500
	want := strings.Repeat("*5\r\n:0\r\n:1001\r\n:1000\r\n:-1\r\n:86400\r\n", batch)
	var commands, replies []byte
	for at := 0; at < n; at += batch {
		if at%(n/100) == 0 {
			between()
		}
		commands = commands[:0]
		for k := range batch {
			key := "client-" + strconv.Itoa(at+k)
			commands = append(commands, "*5\r\n$11\r\nCL.THROTTLE\r\n$"+strconv.Itoa(len(key))+"\r\n"+key+"\r\n$4\r\n1000\r\n$1\r\n1\r\n$5\r\n86400\r\n"...)
		}
		if _, err := c.Write(commands); err != nil {
			t.Fatal(err)
		}
		replies = slices.Grow(replies[:0], len(want))[:len(want)]
		if _, err := io.ReadFull(c, replies); err != nil || string(replies) != want {
			t.Fatalf("the server replied %.200q, %v; want the replies to new keys", replies, err)
		}
	}
	between()
}

// memory returns a figure of the process in bytes, as the kernel counts it.
func (s *server) memory(name string) int64 {
	s.tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		s.tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				s.tb.Fatal(err)
			}
			return n << 10
		}
	}
	s.tb.Fatalf("the process has no %s", name)
	return 0
}
