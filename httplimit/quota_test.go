package httplimit

import (
	"testing"

	"github.com/sluicehq/sluice"
)

// Limits that come with requests do not fill the cache of their texts, and a limit in use keeps its text.
func TestQuotasAreBounded(t *testing.T) {
	var c quotas
	kept := sluice.MustLimit("kept", sluice.TokenBucket{Rate: sluice.PerHour(1)})
	for i := range int64(3 * mostQuotas) {
		c.of(sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerHour(i + 1)}))
		if c.of(kept).limit != kept {
			t.Fatal("the text is of another limit")
		}
	}
	n := 0
	c.known.Range(func(any, any) bool {
		n++
		return true
	})
	if n == 0 || n > mostQuotas+1 {
		t.Errorf("the cache has %d texts", n)
	}
}
