package figures

import (
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Stat
		text   string
	}{
		{nil, Stat{}, "0.0"},
		{[]float64{3}, Stat{Median: 3, Low: 3, High: 3}, "3.0"},
		{[]float64{9, 1, 2}, Stat{Median: 2, Low: 1, High: 9}, "2.0 (1.0–9.0)"},
		{[]float64{4, 1, 2, 9}, Stat{Median: 3, Low: 1, High: 9}, "3.0 (1.0–9.0)"},
	} {
		got := Summarize(c.values)
		c.want.values = c.values
		if !reflect.DeepEqual(got, c.want) || got.Text(1) != c.text {
			t.Errorf("%v: got %v %q, want %v %q", c.values, got, got.Text(1), c.want, c.text)
		}
	}
}

func TestRatioNeedsBothFigures(t *testing.T) {
	r := Results{}
	r.Set("speed", "a", Once(6))
	if _, ok := r.Ratio("speed", "a", "b"); ok {
		t.Error("a ratio without a second figure")
	}
	r.Set("speed", "b", Once(4))
	if got, ok := r.Ratio("speed", "a", "b"); !ok || got.Text(1) != "1.5" {
		t.Errorf("got %v %v, want 1.5", got, ok)
	}
	r.Set("speed", "b", Once(0))
	if got, ok := r.Ratio("speed", "a", "b"); ok {
		t.Errorf("a ratio over 0 is %v", got)
	}
}

// TestRatiosAreTakenRoundByRound checks that a slow round does not change a ratio.
func TestRatiosAreTakenRoundByRound(t *testing.T) {
	for _, c := range []struct {
		s, o []float64
		want string
	}{
		{[]float64{20, 2, 60}, []float64{10, 1, 20}, "2.0 (2.0–3.0)"},
		{[]float64{20, 2, 60}, []float64{10, 1}, "3.6"},
		{[]float64{6}, []float64{4}, "1.5"},
	} {
		if got := Summarize(c.s).Over(Summarize(c.o)).Text(1); got != c.want {
			t.Errorf("%v over %v: got %s, want %s", c.s, c.o, got, c.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	bars := []Bar{{Promise: "p"}, {Measured: true}, {Measured: true, Holds: true}}
	if got := Failed(bars); got != 1 {
		t.Errorf("%d bars fail, want 1", got)
	}
	var got []string
	for _, row := range BarTable(bars)[1:] {
		got = append(got, row[2])
	}
	if want := []string{"not measured", "**does not hold**", "holds"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSection(t *testing.T) {
	var w strings.Builder
	Section{"Nothing", "", Table{{"a", "b"}}}.write(&w)
	table := Table{{"", "µs"}}
	table.Append([]string{"none", ""})
	table.Append([]string{"some", "1.0"})
	Section{"Something", "Text.", table}.write(&w)
	want := "## Something\n\nText.\n\n|      | µs  |\n|------|-----|\n| some | 1.0 |\n\n"
	if w.String() != want {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
}

// TestBucketsAreWithoutGaps checks that every bucket begins after the end of the bucket before it.
func TestBucketsAreWithoutGaps(t *testing.T) {
	for i := range buckets {
		last := upperBound(i)
		if got := bucketOf(last); got != i {
			t.Fatalf("%d is counted in bucket %d, want %d", last, got, i)
		}
		if i+1 < buckets && bucketOf(last+1) != i+1 {
			t.Fatalf("%d is counted in bucket %d, want %d", last+1, bucketOf(last+1), i+1)
		}
	}
}

func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	var whole, part Latencies
	var all []time.Duration
	for i := range 10_000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%2 == 0 {
			whole.Add(d)
		} else {
			part.Add(d)
		}
	}
	whole.Merge(&part)
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		exact := all[int(q*float64(len(all)))-1]
		got := whole.Quantile(q)
		if got < exact || float64(got) > float64(exact)*(1+1.0/32)+1 {
			t.Errorf("quantile %v: got %v, exactly %v", q, got, exact)
		}
	}
	whole.Reset()
	if got := whole.Quantile(0.5); got != 0 {
		t.Errorf("the median without durations is %v", got)
	}
}

func TestQuietIsAShare(t *testing.T) {
	if got := Quiet(); got <= 0 || got > 3 {
		t.Errorf("got %v", got)
	}
}

func TestLeast(t *testing.T) {
	r := Results{}
	r.Set("speed", "a", Once(3))
	r.Set("speed", "b", Once(1))
	r.Set("speed", "c", Once(2))
	if name, v, ok := r.Least("speed", func(subject string) bool { return subject != "b" }); name != "c" || v != 2 || !ok {
		t.Errorf("got %q %v %v, want c, 2", name, v, ok)
	}
	if name, _, ok := r.Least("weight", func(string) bool { return true }); ok {
		t.Errorf("got %q, though nothing was measured", name)
	}
}
