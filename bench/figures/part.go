package figures

import (
	"context"
	"flag"
	"io"
	"regexp"
)

// A Part is one suite of the benchmark.
type Part interface {
	// Name is the word that chooses the part.
	Name() string
	// Flags declares the flags that only this part has.
	Flags(*flag.FlagSet)
	// Run measures. It is called once, after the flags are set.
	Run(context.Context, Options) error
	// Bars compares the figures with every bar.
	Bars() []Bar
	// Report returns the figures, without the bars.
	Report() *Report
}

// Options are the flags that all parts have.
type Options struct {
	// Quick makes the run short.
	Quick bool
	// Only matches the step/subject pairs to measure. Nil matches all.
	Only *regexp.Regexp
	// Progress receives how long each step took.
	Progress io.Writer
}

// Wants reports whether to measure a subject in a step, or in one of its cells.
func (o Options) Wants(step, subject string) bool {
	return o.Only == nil || o.Only.MatchString(step+"/"+subject)
}
