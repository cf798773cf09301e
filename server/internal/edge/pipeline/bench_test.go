package pipeline

import (
	"strconv"
	"testing"

	"github.com/sluicehq/sluice"
)

// BenchmarkQuestions measures what a pipeline of 32 questions costs for each question, besides the store.
func BenchmarkQuestions(b *testing.B) {
	store := newDistant(b)
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000)})
	var keys [32]sluice.Key
	for i := range keys {
		keys[i] = sluice.StringKey(strconv.Itoa(i))
	}
	for name, local := range map[string]bool{"Called": false, "Local": true} {
		b.Run(name, func(b *testing.B) {
			store := &quiet{distant: store, local: local}
			all := New(store, 1024, false)
			defer all.Close()
			p := all.Begin()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p.Do(func() {
					if _, err := p.Decide(b.Context(), sluice.Request{Limit: l, Key: keys[i%32], Cost: 1}); err != nil {
						b.Error(err)
					}
					p.Turn()
				})
				if i%32 == 31 {
					p.Finish()
				}
			}
			p.Finish()
		})
	}
}
