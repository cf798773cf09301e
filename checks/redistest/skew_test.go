package redistest

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// TestSkewSetsTheServersClock sets the clock of a server forward, back and to another speed.
func TestSkewSetsTheServersClock(t *testing.T) {
	t.Parallel()
	s := StartSkewed(t)
	conn, err := s.Dial(short(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ahead := func() time.Duration {
		t.Helper()
		before := time.Now()
		v, err := conn.Do(short(t), "TIME")
		if err != nil {
			t.Fatal(err)
		}
		text, ok := v.([]any)
		if !ok || len(text) != 2 {
			t.Fatalf("the time is %v", v)
		}
		seconds, _ := strconv.ParseInt(fmt.Sprint(text[0]), 10, 64)
		micros, _ := strconv.ParseInt(fmt.Sprint(text[1]), 10, 64)
		return time.Unix(seconds, micros*1000).Sub(before)
	}
	for _, c := range []struct {
		skew     string
		from, to time.Duration
	}{
		{"+0s", -time.Millisecond, 5 * time.Second},
		{"+30s", 30*time.Second - time.Millisecond, 35 * time.Second},
		{"-30s", -30*time.Second - time.Millisecond, -25 * time.Second},
		{"+3s", 3*time.Second - time.Millisecond, 8 * time.Second},
	} {
		if err := s.Set(c.skew); err != nil {
			t.Fatal(err)
		}
		if got := ahead(); got < c.from || got > c.to {
			t.Errorf("%s: the server is ahead by %v", c.skew, got)
		}
	}
	if err := s.Set("+0s x3"); err != nil {
		t.Fatal(err)
	}
	// A busy machine may answer late, so the clock runs until it has gained more than an answer can be late.
	const late = 500 * time.Millisecond
	first, begun := ahead(), time.Now()
	for ahead() < first+2*late {
		if time.Since(begun) > Soon {
			t.Fatalf("in %v, a clock of three times the speed has not gained %v", Soon, 2*late)
		}
	}
	if passed := time.Since(begun); passed < late/2 {
		t.Errorf("a clock of three times the speed has gained %v in %v", 2*late, passed)
	}
}
