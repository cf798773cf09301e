package overapi

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
)

// TestBarsOverTheAPI checks that figures at a bar hold, that figures beyond it do not, and that a bar without figures is not
// measured.
func TestBarsOverTheAPI(t *testing.T) {
	for excess, holds := range map[float64]bool{0: true, 0.1: false} {
		r := figures.Results{}
		r.Set(metricCall, floorName, figures.Once(10))
		r.Set(metricCall, checkName, figures.Once(15+excess))
		r.Set(metricQuestion, smallName, figures.Once(4+excess))
		r.Set(metricQuestion, largeName, figures.Once(4+excess))
		for _, b := range judge(r) {
			if !b.Measured || b.Holds != holds || b.Found == "" {
				t.Errorf("%s: %s: %s, want %t", b.Promise, b.Found, b.Verdict(), holds)
			}
		}
	}
	for _, b := range judge(figures.Results{}) {
		if b.Measured {
			t.Errorf("%s has no figures, but was measured: %s", b.Promise, b.Verdict())
		}
	}
}

// TestEveryCallOverTheAPI makes every call of the benchmark to real servers.
func TestEveryCallOverTheAPI(t *testing.T) {
	servers, err := startAll(t.TempDir())
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{figures.Rounds{N: 1, Turn: 20 * time.Millisecond}}
	for _, s := range subjects() {
		if err := b.measure(&s, servers[s.server]); err != nil {
			t.Error(err)
		}
	}
	if bars, got := b.Bars(), b.Report(); len(bars) != 3 || !bars[0].Measured || len(got.Sections[0].Table) != 6 {
		t.Errorf("want three bars and six rows, got %+v %+v", bars, got)
	}
}
