package figures

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Measurements have their median and their range, in a text with a number of digits.
func TestMeasurementsHaveMedianAndRange(t *testing.T) {
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

// A bar that was measured and does not hold is a failure, and a bar that was not measured says so.
func TestBarsThatDoNotHoldAreFailures(t *testing.T) {
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

// A section leaves out rows without figures, and itself if no row is left.
func TestSectionsLeaveOutEmptyRows(t *testing.T) {
	var w strings.Builder
	Section{Title: "Nothing", Table: Table{{"a", "b"}}}.write(&w, "##")
	table := Table{{"", "µs"}}
	table.Append([]string{"none", ""})
	table.Append([]string{"some", "1.0"})
	Section{Title: "Something", Text: "Text.", Table: table}.write(&w, "##")
	want := "## Something\n\nText.\n\n|      | µs  |\n|------|-----|\n| some | 1.0 |\n\n"
	if w.String() != want {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
}

func TestQuietIsAShare(t *testing.T) {
	if got := Quiet(); got <= 0 || got > 3 {
		t.Errorf("got %v", got)
	}
}

// The least figure is found among some subjects.
func TestLeastFigureOfSomeSubjects(t *testing.T) {
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

// What one figure has beyond another one is computed round by round.
func TestBeyondIsComputedRoundByRound(t *testing.T) {
	if got := Summarize([]float64{5, 9, 3}).Beyond(Summarize([]float64{1, 2, 3})).Text(0); got != "4 (0–7)" {
		t.Errorf("got %s", got)
	}
}

// TestRoundsBeginWithAnotherSubject checks that each round begins with another subject, and that an error ends the race.
func TestRoundsBeginWithAnotherSubject(t *testing.T) {
	r := Rounds{N: 3, Turn: time.Second}
	var order []int
	err := r.Race(3, func(i int) error {
		order = append(order, i)
		r.Add("speed", string(rune('a'+i)), float64(len(order)))
		return nil
	})
	if want := []int{0, 1, 2, 1, 2, 0, 2, 0, 1}; err != nil || !slices.Equal(order, want) {
		t.Errorf("the turns are %v, %v; want another first one in each round", order, err)
	}
	if got := r.Results()["speed"]["a"].Text(0); got != "6 (1–8)" {
		t.Errorf("got %s", got)
	}
	if got := r.Report("A title", "About."); len(got.Quiet) != 3 || got.About != "3 rounds of 1s. About." {
		t.Errorf("the report is %+v, want three quiet rounds of 1 s", got)
	}
	wrong := errors.New("wrong")
	if err := r.Race(3, func(int) error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
}

// A table has a row for each subject with figures, in the given order.
func TestTablesKeepTheGivenOrder(t *testing.T) {
	r := Results{}
	r.Set("speed", "a", Summarize([]float64{1, 2, 3}))
	r.Set("speed", "b", Summarize([]float64{2, 4, 6}))
	got := Columns(
		"x", []string{"b", "none", "a"}, Column{"speed", r.Cell("speed", 0)}, Column{"weight", r.Cell("weight", 0)},
		Column{"median", r.MedianCell("speed", 1e3, 1)}, Column{"ratio", r.RatioCell("speed", "a", 1)},
	)
	want := Table{{"x", "speed", "median", "ratio"}, {"b", "4 (2–6)", "4000.0", "2.0"}, {"a", "2 (1–3)", "2000.0", "1.0"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A comparison says what was measured of both subjects, and whether the bar holds.
func TestComparisonsShowWhetherTheBarHolds(t *testing.T) {
	r := Results{}
	r.Set("speed", "a", Once(3))
	r.Set("speed", "b", Once(2))
	for _, c := range []struct {
		bar  Bar
		want string
	}{
		{r.AtMost("p", "speed", "a", 1.5, "b", "%.0f µs", 2), "3 µs : 2 µs = 1.50, holds"},
		{r.AtMost("p", "speed", "a", 1.4, "b", "%.0f", 1), "3 : 2 = 1.5, **does not hold**"},
		{r.AtLeast("p", "speed", "a", 1.5, "b", "%.0f", 1), "3 : 2 = 1.5, holds"},
		{r.AtLeast("p", "speed", "a", 1.6, "b", "%.0f", 1), "3 : 2 = 1.5, **does not hold**"},
		{r.AtLeast("p", "speed", "a", 1.6, "c", "%.0f", 1), ", not measured"},
	} {
		if got := c.bar.Found + ", " + c.bar.Verdict(); got != c.want || c.bar.Promise != "p" {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
