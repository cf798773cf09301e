package config

import (
	"fmt"
	"slices"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/observe/webhook"
)

// ScaleOut names programs that Sluice informs of the pressure on rules. Autoscalers read the pressure from the
// admin listener without any setting: see docs/scale-out.md.
type ScaleOut struct {
	// Webhook is a program that receives a message when pressure becomes high or ends. Default: none.
	Webhook *webhook.Settings `yaml:"webhook"`
}

// checkScaleOut checks the webhook.
func (f *File) checkScaleOut(s *reader.Source) {
	w := f.ScaleOut.Webhook
	if w == nil {
		return
	}
	w.Check(s)
	names := make([]string, len(f.Rules))
	for i := range f.Rules {
		names[i] = f.Rules[i].Name
	}
	for i, name := range w.Rules {
		at := fmt.Sprintf("scale_out.webhook.rules[%d]", i)
		switch {
		case !slices.Contains(names, name):
			s.Follow(at, reader.Quote(name)+" is not a rule", reader.DidYouMean(name, names))
		case slices.Contains(w.Rules[:i], name):
			s.Follow(at, reader.Quote(name)+" is there twice", "remove one of them")
		}
	}
}
