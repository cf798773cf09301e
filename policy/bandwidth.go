package policy

import (
	"errors"

	"github.com/sluicehq/sluice"
)

// Bandwidth paces the bytes of requests, all of one key together. A gate carries it out.
type Bandwidth struct {
	// Down is the rate of what clients receive, in bytes; zero for no pacing.
	Down sluice.Rate
	// Up is the rate of what clients send, in bytes; zero for no pacing.
	Up sluice.Rate
}

// Paced is a rule with a Bandwidth that a request met, and the key whose bytes are paced.
type Paced struct {
	Rule *Rule
	Key  sluice.Key
}

func (b *Bandwidth) check(report func(field, value string, f fault)) {
	if b.Down.IsZero() && b.Up.IsZero() {
		report("Bandwidth", "", fault{"has no rate", "give Down or Up, in bytes, such as sluice.PerSecond(1_000_000)"})
	}
	for field, rate := range map[string]sluice.Rate{"Bandwidth.Down": b.Down, "Bandwidth.Up": b.Up} {
		if rate.IsZero() {
			continue
		}
		_, err := sluice.NewLimit("", sluice.FixedWindow{Rate: rate})
		var bad *sluice.LimitError
		if errors.As(err, &bad) {
			report(field, "", fault{bad.Problem, bad.Remedy})
		}
	}
}
