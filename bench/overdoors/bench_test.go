package overdoors

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
)

// TestBarsOverDoors checks that figures at a bar hold, that figures beyond it do not, and that a bar without figures is not
// measured.
func TestBarsOverDoors(t *testing.T) {
	for rate, holds := range map[float64]bool{85: true, 84: false} {
		r := figures.Results{}
		r.Set(metricCalls, rlsKinds[0].name, figures.Once(100))
		r.Set(metricCalls, rlsKinds[1].name, figures.Once(rate))
		if b := judge(r)[0]; !b.Measured || b.Holds != holds || b.Found == "" {
			t.Errorf("%s: %s: %s, want %t", b.Promise, b.Found, b.Verdict(), holds)
		}
	}
	for used, holds := range map[float64]bool{12: true, 13: false} {
		r := figures.Results{}
		r.Set(metricCPU, nginxBare, figures.Once(10))
		r.Set(metricCPU, nginxAuth, figures.Once(used))
		if b := judgeAuth(r)[1]; !b.Measured || b.Holds != holds || b.Found == "" {
			t.Errorf("%s: %s: %s, want %t", b.Promise, b.Found, b.Verdict(), holds)
		}
	}
	for _, b := range judge(figures.Results{}) {
		if b.Measured {
			t.Errorf("%s has no figures, but was measured: %s", b.Promise, b.Verdict())
		}
	}
}

// TestEveryCallOverDoors makes every call of the benchmark to real servers.
func TestEveryCallOverDoors(t *testing.T) {
	b := newBench()
	b.Rounds = figures.Rounds{N: 1, Turn: 20 * time.Millisecond}
	b.traefikProgram = os.Getenv("SLUICE_TRAEFIK") // see tools/traefik.sh
	b.work = t.TempDir()
	t.Cleanup(b.stop)
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	rows := b.rows()
	for i := range rows {
		if err := b.measure(&rows[i]); err != nil {
			t.Error(err)
		}
	}
	got := b.Report()
	if !b.Bars()[0].Measured || len(got.Sections) != 5 {
		t.Errorf("want a measured bar and five sections, got %+v", got)
	}
	// Every row is in the table of its door, and a row of one call has its latencies.
	var whole []string
	for _, s := range got.Sections[1:] {
		for _, cells := range s.Table[1:] {
			whole = append(whole, cells[0])
			many := strings.Contains(cells[0], "descriptors") || strings.Contains(cells[0], "pipelined")
			if last := cells[len(cells)-1]; (last == "") != many {
				t.Errorf("a row of one call should have latencies, and no other: %q", cells)
			}
		}
	}
	if len(whole) != len(rows) {
		t.Errorf("the tables have %q", whole)
	}
	// The gateways come with and without what they add.
	added, compared := 0, 0
	for _, r := range rows {
		if r.without != "" && !r.floor {
			compared++
		}
	}
	for _, cells := range got.Sections[0].Table[1:] {
		if len(cells) != 7 || cells[1] == "" || cells[3] == "" || cells[5] == "" {
			t.Errorf("a row lacks its figures: %q", cells)
		}
		if cells[2] != "" {
			added++
		}
	}
	if added != compared {
		t.Errorf("%d rows have what they add, want %d", added, compared)
	}
}
