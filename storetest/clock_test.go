package storetest_test

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/storetest"
)

func TestClock(t *testing.T) {
	c := storetest.NewClock()
	begin := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		do   func()
		want time.Time
	}{
		{func() {}, begin},
		{func() { c.Advance(time.Second + 999*time.Nanosecond) }, begin.Add(time.Second)},
		{func() { c.Advance(-2 * time.Second) }, begin.Add(-time.Second)},
		{func() { c.Set(begin.Add(time.Hour).UnixMicro()) }, begin.Add(time.Hour)},
	} {
		step.do()
		if got := c.Time(); !got.Equal(step.want) || c.Now() != step.want.UnixMicro() {
			t.Errorf("the clock says %v and %d, want %v", got, c.Now(), step.want)
		}
	}
}
