package overdoors

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/cmd/bench/process"
)

// TestJudge checks that figures at a bar hold, that figures beyond it do not, and that a bar without figures is not
// measured.
func TestJudge(t *testing.T) {
	for rate, holds := range map[float64]bool{85: true, 84: false} {
		r := figures.Results{}
		r.Set(metricCalls, rlsKinds[0].name, figures.Once(100))
		r.Set(metricCalls, rlsKinds[1].name, figures.Once(rate))
		if b := judge(r)[0]; !b.Measured || b.Holds != holds || b.Found == "" {
			t.Errorf("%s: %s: %s, want %t", b.Promise, b.Found, b.Verdict(), holds)
		}
	}
	for used, holds := range map[float64]bool{25: true, 26: false} {
		r := figures.Results{}
		r.Set(metricCPU, nginxLimit, figures.Once(10))
		r.Set(metricCPU, nginxAuth, figures.Once(used))
		if b := judgeAuth(r)[1]; !b.Measured || b.Holds != holds || b.Found == "" {
			t.Errorf("%s: %s: %s, want %t", b.Promise, b.Found, b.Verdict(), holds)
		}
	}
	for _, b := range judge(figures.Results{}) {
		if b.Measured {
			t.Errorf("%s: %s", b.Promise, b.Verdict())
		}
	}
}

// TestMeasure makes every call of the benchmark to real servers.
func TestMeasure(t *testing.T) {
	b := &bench{size: size{20 * time.Millisecond, 1}, work: t.TempDir(), servers: map[string]*process.Server{}, values: map[string]map[string][]float64{}}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.rows() {
		if err := b.measure(&r); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	if got := b.report(); !got.Bars[0].Measured || len(got.Sections[0].Table) < 7 || len(got.Sections[1].Table) != 1+len(authRows()) {
		t.Errorf("%+v", got)
	}
}
