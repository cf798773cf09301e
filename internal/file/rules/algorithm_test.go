package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
)

// downStore is a store that fails.
type downStore struct{ sluice.Store }

func (downStore) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{}, errors.New("down")
}

// TestEveryAlgorithm: a file can name each algorithm, and the fallback local can scale it. The
// compiler finds neither a case that is missing in Limit.algorithm nor one in sluice.Share.
func TestEveryAlgorithm(t *testing.T) {
	for _, name := range algorithms() {
		t.Run(name, func(t *testing.T) {
			if takes[name] == nil {
				t.Fatal("has no row in takes")
			}
			amount := "rate: 6/m"
			if !slices.Contains(takes[name], "rate") {
				amount = "max: 6"
			}
			f, err := parse("test.yaml", fmt.Appendf(nil, "version: 1\nrules: [{name: r, key: global, limit: {algorithm: %s, %s}}]\n", name, amount))
			if err != nil {
				t.Fatal(err)
			}
			p, err := f.Policy()
			if err != nil {
				t.Fatal(err)
			}
			l := p.Rule("r").Limits[0]
			if text := l.Algorithm().String(); !strings.HasPrefix(text, name+"(") {
				t.Errorf("the file gives %s; Limit.algorithm needs a case", text)
			}
			local, err := memory.New(memory.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer local.Close()
			s, err := guard.New(guard.Options{Store: downStore{}, Local: local, Share: sluice.Share{Of: 1, Parts: 2}})
			if err != nil {
				t.Fatal(err)
			}
			d, err := s.Decide(t.Context(), sluice.Request{Limit: l, Key: sluice.StringKey("k"), Cost: 1, Member: 1})
			if err != nil || !d.Degraded || !d.Allowed || d.ResetAfter > time.Hour {
				t.Errorf("a half of it decides %+v, %v; guard's Share.algorithms needs a case", d, err)
			}
		})
	}
}
