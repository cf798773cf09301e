package overproxy

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
)

// TestBarsOverProxies checks that figures at a bar hold, that figures beyond it do not, and that a bar without figures is not
// measured.
func TestBarsOverProxies(t *testing.T) {
	for excess, holds := range map[float64]bool{0: true, 0.1: false} {
		r := figures.Results{}
		r.Set(metricGet, nginxName, figures.Once(10))
		r.Set(metricGet, sluiceName, figures.Once(30+excess))
		r.Set(metricRate, reverseName, figures.Once(10))
		r.Set(metricRate, sluiceName, figures.Once(30-excess))
		r.Set(metricTail, nginxName, figures.Once(1))
		r.Set(metricTail, sluiceName, figures.Once(1.5+excess))
		r.Set(metricUpload, reverseName, figures.Once(80))
		r.Set(metricUpload, sluiceName, figures.Once(85+excess))
		r.Set(metricIdle, reverseName, figures.Once(10))
		r.Set(metricIdle, sluiceName, figures.Once(11+excess))
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

// TestEveryRequestOverProxies makes every request of the benchmark through every proxy.
func TestEveryRequestOverProxies(t *testing.T) {
	up, err := startUpstream()
	if err != nil {
		t.Fatal(err)
	}
	defer up.stop()
	b := &bench{size: size{figures.Rounds{N: 1, Turn: 20 * time.Millisecond}, 8}}
	servers, err := b.startAll(t.TempDir(), up.address)
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	if len(b.missing) > 0 {
		t.Errorf("not installed: %v", b.missing)
	}
	for name, at := range servers {
		for _, metric := range []string{metricGet, metricUpload, metricTail} {
			if err := b.measure(metric, name, at); err != nil {
				t.Error(err)
			}
		}
		if err := b.measureIdle(name, at); err != nil {
			t.Errorf("%s: the idle connections were not measured: %v", name, err)
		}
	}
	if bars, got := b.Bars(), b.Report(); len(bars) != 6 || !bars[5].Measured || len(got.Sections[0].Table) != 6 {
		t.Errorf("want six bars and six rows, got %+v %+v", bars, got)
	}
}
