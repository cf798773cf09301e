package rls

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestRatesHaveUnitsOfTheProtocol checks that rates are shown in the units of the protocol.
func TestRatesHaveUnitsOfTheProtocol(t *testing.T) {
	const day = 24 * time.Hour
	for _, x := range []struct {
		rate sluice.Rate
		want string
	}{
		{sluice.PerSecond(5), "5/SECOND"},
		{sluice.PerMinute(5), "5/MINUTE"},
		{sluice.Per(5, 60*time.Minute), "5/HOUR"},
		{sluice.Per(5, day), "5/DAY"},
		{sluice.Per(5, 7*day), "5/WEEK"},
		{sluice.Per(5, 30*day), "5/MONTH"},
		{sluice.Per(5, 365*day), "5/YEAR"},
		{sluice.Per(5, 10*time.Minute), "5/10 MINUTE"},
		{sluice.Per(5, 90*time.Second), "5/90 SECOND"},
		{sluice.Per(5, 60*day), "5/60 DAY"},
		{sluice.Per(5, 14*day), "5/2 WEEK"},
		{sluice.Per(10, 100*time.Millisecond), "100/SECOND"},
		{sluice.Per(3, 700*time.Millisecond), "30/7 SECOND"},
		{sluice.Per(1, 1500*time.Millisecond), "2/3 SECOND"},
		{sluice.Per(0, time.Second), "0/SECOND"},
		{sluice.Per(math.MaxUint32, time.Second), "4294967295/SECOND"},
		{sluice.Per(1<<32, time.Second), "4294967295/SECOND"},
		{sluice.Per(1<<32, time.Minute), "1073741824/15 SECOND"},
		{sluice.Rate{}, "0/UNKNOWN"},
	} {
		if got := text(show(x.rate)); got != x.want {
			t.Errorf("%v is shown as %s; want %s", x.rate, got, x.want)
		}
	}
}

func text(l shownLimit) string {
	if l.multiple > 0 {
		return fmt.Sprintf("%d/%d %v", l.count, l.multiple, l.unit)
	}
	return fmt.Sprintf("%d/%v", l.count, l.unit)
}

// TestShowIsNeverMore checks that no rate is shown as more than it is, and that whole seconds are shown exactly.
func TestShowIsNeverMore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		count := 1 + random.Int64N(1<<(1+random.IntN(50)))
		period := time.Duration(1+random.Int64N(1<<(1+random.IntN(50)))) * time.Microsecond
		if period > mostPeriod {
			continue
		}
		got := show(sluice.Per(count, period))
		length := periods[got.unit] * time.Duration(max(1, got.multiple))
		shown, exact := big.NewRat(int64(got.count), int64(length)), big.NewRat(count, int64(period))
		whole := count <= math.MaxUint32 && period%time.Second == 0
		if order := shown.Cmp(exact); order > 0 || whole && order != 0 || got.count == 0 {
			t.Fatalf("%d in %v is shown as %s", count, period, text(got))
		}
	}
}
