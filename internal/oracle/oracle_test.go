package oracle

import "testing"

// row is one request and its result, computed by hand.
type row struct {
	request Request
	want    Result
}

// at is a request for some units.
func at(now, cost int64) Request { return Request{Now: now, Cost: cost} }

// waiting is a request that accepts a delay.
func waiting(now, cost, wait int64) Request { return Request{Now: now, Cost: cost, MaxWait: wait} }

func allowed(remaining, delay, reset int64) Result {
	return Result{Allowed: true, Remaining: remaining, Delay: delay, ResetAfter: reset}
}

func denied(reason Reason, remaining, retry, reset int64) Result {
	return Result{Reason: reason, Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
}

// TestOracleDecidesByTheRows replays a few requests of each algorithm, among them one for which the clock goes back.
func TestOracleDecidesByTheRows(t *testing.T) {
	for name, c := range map[string]struct {
		fresh State
		rows  []row
	}{
		"bucket of 3, 1 per 10": {NewBucket(1, 10, 3, 3), []row{
			{at(100, 2), allowed(1, 0, 20)},
			{at(105, 2), denied(Limited, 1, 5, 15)},
			{at(110, 4), denied(Never, 2, 0, 10)},
			{at(110, 2), allowed(0, 0, 30)},
			{waiting(110, 2, 20), allowed(0, 20, 50)},
			{at(90, 0), denied(Limited, 0, 40, 70)},
			{at(60, 1), denied(Limited, 0, 30, 50)}, // set back by more than a period, with the debt kept
		}},
		"cold bucket of 5, 1 per 10, warm after 40": {NewWarmBucket(1, 10, 5, 5, 40, 3), []row{
			// 4 of 4 stored permits; the upper 2 fall from 30 to 10 each.
			{at(100, 2), allowed(0, 0, 60)},
			{at(130, 1), denied(Limited, 0, 10, 30)},
			{at(140, 1), allowed(0, 0, 40)},
			{at(135, 1), denied(Limited, 0, 15, 45)},
		}},
		"leaky bucket of 1 per 10, queue 2, undelayed 1": {NewLeaky(1, 10, 2, 1), []row{
			{at(100, 1), allowed(2, 0, 10)},
			{at(100, 1), allowed(1, 0, 20)},
			{at(100, 1), allowed(0, 10, 30)},
			{at(105, 1), denied(Limited, 0, 5, 25)},
			{at(105, 4), denied(Never, 0, 0, 25)},
			{at(95, 1), denied(Limited, 0, 15, 35)},
		}},
		"window of 2 per 10": {NewWindow(2, 10, false, false), []row{
			{at(103, 2), allowed(0, 0, 7)},
			{at(104, 1), denied(Limited, 0, 6, 6)},
			{at(96, 1), denied(Limited, 0, 14, 14)},
			{at(110, 1), allowed(1, 0, 10)},
		}},
		"window of 2 per 10, opened": {NewWindow(2, 10, true, true), []row{
			{at(103, 2), allowed(0, 0, 10)},
			{at(112, 1), denied(Limited, 0, 1, 1)},
			{at(113, 3), denied(Never, 2, 0, 0)},
			{at(113, 1), allowed(1, 0, 10)},
		}},
		"cells of 3 per 20, 2 of them": {NewCells(3, 20, 2, false), []row{
			{at(105, 2), allowed(1, 0, 25)},
			{at(118, 1), allowed(0, 0, 22)},
			{at(129, 2), denied(Limited, 0, 1, 11)},
			{at(130, 2), allowed(0, 0, 30)},
			{at(125, 1), denied(Limited, 0, 15, 35)},
		}},
		"counter of 4 per 10": {NewCounter(4, 10, false), []row{
			{at(105, 4), allowed(0, 0, 15)},
			{at(111, 1), denied(Limited, 0, 2, 9)}, // 4·9/10, rounded up, is 4
			{at(113, 1), allowed(0, 0, 17)},        // 4·7/10, rounded up, is 3
			{at(108, 1), denied(Limited, 0, 7, 22)},
		}},
		"log of 2 per 10, an interval of 3": {NewLog(2, 10, 3, false), []row{
			{at(100, 1), allowed(1, 0, 10)},
			{at(102, 1), denied(TooSoon, 1, 1, 8)},
			{at(103, 1), allowed(0, 0, 10)},
			{at(104, 1), denied(Limited, 0, 6, 9)},
			{at(101, 1), denied(Limited, 0, 9, 12)},
		}},
		"leases of 2, queue 1, for 10": {NewLeases(2, 1, 10, 4), []row{
			{Request{Now: 100, Cost: 2, Member: 1}, allowed(1, 0, 10)},
			{Request{Now: 103, Cost: 1, Member: 2, MaxWait: -1}, denied(Limited, 0, 7, 7)},
			{Request{Now: 103, Cost: 1, Member: 2}, allowed(0, 4, 10)},
			{Request{Now: 104, Cost: 1, Member: 3}, denied(Limited, 0, 6, 9)},
			{Request{Now: 105, Cost: 2, Member: 1}, allowed(0, 0, 10)},
			{Request{Now: 99, Cost: 1, Member: 3}, denied(Limited, 0, 14, 16)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.fresh
			for i, r := range c.rows {
				got, _, after := Decide(s, r.request, Result{})
				if got != r.want {
					t.Errorf("row %d: got %+v, want %+v", i, got, r.want)
				}
				check(t, s, r.request)
				s = after
			}
		})
	}
}

// check compares the ways to decide one request: no guess changes a result, and Fits accepts only the
// result of Decide or Peek.
func check(t *testing.T, s State, r Request) {
	t.Helper()
	want, _, after := Decide(s, r, Result{})
	for _, guess := range []Result{want, {RetryAfter: 1 << 40, ResetAfter: -1}, {RetryAfter: 3, ResetAfter: 7}} {
		if got, _, _ := Decide(s, r, guess); got != want {
			t.Errorf("%+v: got %+v with the guess %+v, want %+v", r, got, guess, want)
		}
	}
	if ok, next := Fits(s, r, want, false); !ok || !next.Equal(after) {
		t.Errorf("%+v: the right result does not fit", r)
	}
	if ok, next := Fits(s, r, Peek(s, r, want), true); !ok || !next.Equal(s) {
		t.Errorf("%+v: the right peek does not fit", r)
	}
	for _, wrong := range []Result{
		{Allowed: !want.Allowed, Reason: want.Reason, Remaining: want.Remaining, Delay: want.Delay, RetryAfter: want.RetryAfter, ResetAfter: want.ResetAfter},
		{Allowed: want.Allowed, Reason: want.Reason, Remaining: want.Remaining + 1, Delay: want.Delay, RetryAfter: want.RetryAfter, ResetAfter: want.ResetAfter},
		{Allowed: want.Allowed, Reason: want.Reason, Remaining: want.Remaining, Delay: want.Delay + 1, RetryAfter: want.RetryAfter, ResetAfter: want.ResetAfter},
		{Allowed: want.Allowed, Reason: want.Reason, Remaining: want.Remaining, Delay: want.Delay, RetryAfter: want.RetryAfter + 1, ResetAfter: want.ResetAfter},
		{Allowed: want.Allowed, Reason: want.Reason, Remaining: want.Remaining, Delay: want.Delay, RetryAfter: want.RetryAfter, ResetAfter: want.ResetAfter + 1},
	} {
		if ok, _ := Fits(s, r, wrong, false); ok {
			t.Errorf("%+v: %+v fits, but %+v is right", r, wrong, want)
		}
	}
}
