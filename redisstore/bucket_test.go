package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// written is a value as the scripts write it, without the limit's numbers.
func written(numbers ...int64) string {
	var b []byte
	for _, n := range numbers {
		b = appendInt(b, n)
	}
	return string(b)
}

// TestReadBuckets: a view is the state that the script decided upon, or an error.
func TestReadBuckets(t *testing.T) {
	r := sluice.PerMinute(100) // a unit is 600,000 ticks
	bucket := sluice.MustLimit("", sluice.TokenBucket{Rate: r, Burst: 20})
	warm := sluice.MustLimit("", sluice.TokenBucket{Rate: r, Burst: 20, WarmUp: time.Millisecond})
	leaky := sluice.MustLimit("", sluice.LeakyBucket{Rate: r, Queue: 20})
	for _, c := range []struct {
		name  string
		limit *sluice.Limit
		view  string
		want  algo.State
		words []uint64
		bad   bool
	}{
		{"a fresh bucket", bucket, "", algo.State{}, nil, false},
		{"a bucket", bucket, written(1, 1000, 3, 599_999), algo.State{T: 1000, V: 2_399_999}, nil, false},
		{"one that has lent", bucket, written(1, 1000, 3, -1), algo.State{T: 1000, V: 1_800_000 | 1<<63}, nil, false},
		{"one that has lent a part", bucket, written(1, 1000, 3, -600_000), algo.State{T: 1000, V: 2_399_999 | 1<<63}, nil, false},
		{"a fraction that is a unit", bucket, written(1, 1000, 3, 600_000), algo.State{}, nil, true},
		{"a lent fraction that is a unit", bucket, written(1, 1000, 3, -600_001), algo.State{}, nil, true},
		{"more than can be missing", bucket, written(1, 1000, 1<<53, 0), algo.State{}, nil, true},
		{"units below zero", bucket, written(1, 1000, -1, 0), algo.State{}, nil, true},
		{"a time below zero", bucket, written(1, -1, 1, 0), algo.State{}, nil, true},
		{"another kind", bucket, written(3, 1000, 1, 0), algo.State{}, nil, true},
		{"half a bucket", bucket, written(1, 1000), algo.State{}, nil, true},
		{"a fresh leaky bucket", leaky, "", algo.State{}, nil, false},
		{"a leaky bucket", leaky, written(3, 1000, 3, 1), algo.State{T: 1000, V: 1_800_001}, nil, false},
		{"a leaky fraction below zero", leaky, written(3, 1000, 3, -1), algo.State{}, nil, true},
		{"more than can be queued", leaky, written(3, 1000, 1<<53, 0), algo.State{}, nil, true},
		{"a cold bucket", warm, "", algo.State{}, []uint64{0, 0, 0}, false},
		{"a warm bucket", warm, written(2, 1000, 5, 1, 8000, 0), algo.State{}, []uint64{1000, 1<<48 + 5, 8000}, false},
		{"more than the most warmth", warm, written(2, 1000, 5, 1, 8001, 0), algo.State{}, nil, true},
		{"low bits that are high", warm, written(2, 1000, 1<<48, 1, 0, 0), algo.State{}, nil, true},
		{"bits that there are not", warm, written(2, 1000, 0, 1<<15, 0, 0), algo.State{}, nil, true},
	} {
		in := reader{rest: c.view}
		state, words := kinds[c.limit.Params().Kind].read(&in, c.limit.Params())
		if (in.err != nil) != c.bad {
			t.Errorf("%s: the error is %v, want one: %v", c.name, in.err, c.bad)
			continue
		}
		if c.bad {
			continue
		}
		if state != c.want || len(words) != len(c.words) {
			t.Errorf("%s: got %+v %v", c.name, state, words)
		}
		for i := range words {
			if words[i] != c.words[i] {
				t.Errorf("%s: got %v, want %v", c.name, words, c.words)
			}
		}
	}
}

// TestBucketNumbers: scripts find the period of a bucket from them.
func TestBucketNumbers(t *testing.T) {
	for _, c := range []struct {
		algorithm sluice.Algorithm
		want      []int64
	}{
		{sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20}, []int64{1, 600_000, 20, 20, 100}},
		{sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 101, Debt: 7}, []int64{1, 600_000, 101, 7, 0}},
		{sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 100}, []int64{1, 600_000, 100, 100, 0}},
		{sluice.LeakyBucket{Rate: sluice.PerMinute(100), Queue: 98, Undelayed: 4}, []int64{1, 600_000, 98, 4, 100}},
		{sluice.LeakyBucket{Rate: sluice.PerMinute(100), Queue: 100}, []int64{1, 600_000, 100, 0, 0}},
		{
			sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20, WarmUp: time.Hour, ColdFactor: 5},
			[]int64{1, 600_000, 20, 20, 3_600_000_000, 5, 3_600_000_000},
		},
	} {
		p := sluice.MustLimit("", c.algorithm).Params()
		if got := kinds[p.Kind].numbers(p); written(got...) != written(c.want...) {
			t.Errorf("%v: got %v, want %v", c.algorithm, got, c.want)
		}
	}
}

// TestChargedReplies: the state after a charge gives the decision, or the reply is an error.
func TestChargedReplies(t *testing.T) {
	const now = 1_700_000_000_000_000
	// A unit is 600,000 ticks.
	bucket := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
	numbers := new(limits).get(bucket).blob
	other := new(limits).get(sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 19})).blob
	for _, c := range []struct {
		name  string
		reply string
		cost  int64
		left  int64 // -1: an error
	}{
		{"the first charge", written(1, now, 1, 0) + numbers, 1, 19},
		{"a charge of several units", written(1, now, 5, 0) + numbers, 5, 15},
		{"a charge upon a part of a unit", written(1, now, 1, 1) + numbers, 1, 18},
		{"the last unit", written(1, now, 20, 0) + numbers, 1, 0},
		{"less than the cost", written(1, now, 4, 599_999) + numbers, 5, -1},
		{"more than the burst", written(1, now, 20, 1) + numbers, 1, -1},
		{"a cost above the burst", written(1, now, 21, 0) + numbers, 21, -1},
		{"a cost whose ticks overflow", written(1, now, 21, 0) + numbers, 1 << 62, -1},
		{"a bucket that has lent", written(1, now, 3, -1) + numbers, 1, -1},
		{"other numbers", written(1, now, 1, 0) + other, 1, -1},
		{"no numbers", written(1, now, 1, 0), 1, -1},
		{"something after the numbers", written(1, now, 1, 0) + numbers + "\x00", 1, -1},
		{"half a state", written(1, now), 1, -1},
	} {
		s, err := New(&fakeClient{reply: c.reply}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Decide(t.Context(), sluice.Request{Limit: bucket, Key: sluice.StringKey("k"), Cost: c.cost})
		switch {
		case c.left < 0:
			if !errors.Is(err, sluice.ErrUnknownOutcome) {
				t.Errorf("%s: got %+v, %v, want an unknown outcome", c.name, d, err)
			}
		case err != nil || !d.Allowed || d.Remaining != c.left || d.Receipt.At != now:
			t.Errorf("%s: got %+v, %v, want %d left at %d", c.name, d, err, c.left, int64(now))
		}
	}
}

// TestChargedBatches: the states after a batch that passes give its decisions, or the reply is an error.
func TestChargedBatches(t *testing.T) {
	const now = 1_700_000_000_000_000
	var known limits
	var rs []sluice.Request
	var states string
	for i, name := range []string{"a", "b"} {
		l := sluice.MustLimit(name, sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: int64(20 + i)})
		rs = append(rs, sluice.Request{Limit: l, Key: sluice.StringKey("k"), Cost: int64(1 + i)})
		states += written(1, now, 5, 0) + known.get(l).blob
	}
	first := states[:len(states)/2]
	for _, c := range []struct {
		name, reply string
		bad         bool
	}{
		{"both states", states, false},
		{"one state", first, true},
		{"three states", states + first, true},
		{"the states of other limits", first + first, true},
		{"half of the second", states[:len(states)-3], true},
	} {
		s, err := New(&fakeClient{reply: c.reply}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var out [2]sluice.Decision
		err = s.DecideAll(t.Context(), rs, out[:])
		switch {
		case c.bad:
			if !errors.Is(err, sluice.ErrUnknownOutcome) {
				t.Errorf("%s: got %v, want an unknown outcome", c.name, err)
			}
		case err != nil || out[0].Remaining != 15 || out[1].Remaining != 16 || !out[0].Allowed || !out[1].Allowed:
			t.Errorf("%s: got %+v, %v", c.name, out, err)
		}
	}
}
