package figures

import (
	"fmt"
	"time"
)

// Rounds are the figures of subjects that take turns, so that a disturbance of the machine affects all of them.
type Rounds struct {
	N    int           // how many rounds there are
	Turn time.Duration // how long a subject's turn is

	quiet  []float64 // the results of Quiet, one per round
	values map[string]map[string][]float64
}

// Race gives each of several subjects its turn in each round. Each round begins with another subject.
func (r *Rounds) Race(subjects int, turn func(i int) error) error {
	for round := range r.N {
		r.quiet = append(r.quiet, Quiet())
		for i := range subjects {
			if err := turn((i + round) % subjects); err != nil {
				return err
			}
		}
	}
	return nil
}

// Add records a figure of a turn.
func (r *Rounds) Add(metric, subject string, v float64) {
	if r.values == nil {
		r.values = map[string]map[string][]float64{}
	}
	if r.values[metric] == nil {
		r.values[metric] = map[string][]float64{}
	}
	r.values[metric][subject] = append(r.values[metric][subject], v)
}

// Results returns the figures of all rounds.
func (r *Rounds) Results() Results {
	all := Results{}
	for metric, bySubject := range r.values {
		for subject, values := range bySubject {
			all.Set(metric, subject, Summarize(values))
		}
	}
	return all
}

// Report returns a report that begins with how figures come from rounds.
func (r *Rounds) Report(title, about string) *Report {
	return &Report{Title: title, About: Method(r.N, r.Turn) + " " + about, Quiet: r.quiet}
}

// Method returns how many rounds there were.
func Method(rounds int, turn time.Duration) string {
	return fmt.Sprintf("%d rounds of %v.", rounds, turn.Round(time.Millisecond))
}
