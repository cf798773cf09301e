package overchanges

import (
	"flag"
	"io"
	"testing"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
)

// Figures of overrides at a bar hold, figures beyond it do not, and a bar without figures is not measured.
func TestBarsOfChanges(t *testing.T) {
	for excess, holds := range map[float64]bool{0: true, 0.1: false} {
		r := figures.Results{}
		for _, keeper := range keepers {
			r.Set(metricFill, keeper, figures.Once(10_000-excess))
			r.Set(metricStart, keeper, figures.Once(5+excess))
		}
		bars := judge(r)
		for _, b := range bars {
			if !b.Measured || b.Holds != holds || b.Found == "" {
				t.Errorf("%s: %s: %s, want %t", b.Promise, b.Found, b.Verdict(), holds)
			}
		}
		if len(bars) != 5 {
			t.Errorf("there are %d bars, want 5", len(bars))
		}
	}
	for _, b := range judge(figures.Results{}) {
		if b.Measured {
			t.Errorf("%s has no figures, but was measured: %s", b.Promise, b.Verdict())
		}
	}
}

// The part makes changes with each keeper, and a server that starts has all of them.
func TestChangesWithEveryKeeper(t *testing.T) {
	before := short
	defer func() { short = before }()
	short = size{turn: 20 * time.Millisecond, rounds: 1, overrides: 2 * batch}
	p := New()
	p.Flags(flag.NewFlagSet("", flag.ContinueOnError))
	if err := p.Run(t.Context(), figures.Options{Quick: true, Progress: io.Discard}); err != nil {
		t.Fatal(err)
	}
	for _, b := range p.Bars() {
		if !b.Measured {
			t.Errorf("%s is not measured", b.Promise)
		}
	}
	if table := p.Report().Sections[0].Table; len(table) != 1+len(keepers) {
		t.Errorf("the table has %d rows, want one for each of %d keepers and the head", len(table), len(keepers))
	}
}
