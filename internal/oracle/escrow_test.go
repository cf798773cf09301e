package oracle

import "testing"

// claimed is one claim of a holder and what the answer must be, computed by hand.
type claimed struct {
	now    int64
	holder uint64
	claim  Claim
	units  int64 // granted
	held   int64
	free   int64
	escrow int64
	till   int64
}

// terms are the terms of these tests: 6 units may be granted at once, for 1000 µs.
var terms = Terms{Cap: 6, Life: 1000}

// want is a claim for units, of a holder with some demand.
func want(seq uint64, units int64) Claim { return Claim{Seq: seq, Want: units, Least: 1, Demand: 1000} }

// The oracle grants, repeats and expires claims as the tables say.
func TestOracleGrantsByTheTables(t *testing.T) {
	for name, c := range map[string]struct {
		fresh State
		rows  []claimed
	}{
		"half of what is free, at most the cap": {NewBucket(1, 1000, 10, 10), []claimed{
			{100, 1, want(1, 100), 5, 5, 5, 5, 1100},
			{100, 1, want(1, 100), 5, 5, 5, 5, 1100}, // the same sequence grants once
			{100, 2, want(1, 100), 1, 1, 4, 6, 1100},
			{100, 3, want(1, 100), 0, 0, 4, 6, 1100},
		}},
		"a report is booked when it comes": {NewBucket(1, 1000, 10, 10), []claimed{
			{100, 1, want(1, 4), 4, 4, 6, 4, 1100},
			{600, 1, Claim{Seq: 2, Birth: 1, Till: 1100, Spent: 3, Demand: 1}, 0, 1, 6, 1, 1600},
			{1100, 1, Claim{Seq: 3, Birth: 1, Till: 1600, Returned: 1, Demand: 1}, 0, 0, 7, 0, 2100}, // 7.5, rounded down
		}},
		"an expired grant is booked when it ends": {NewBucket(1, 1000, 10, 10), []claimed{
			{100, 1, want(1, 4), 4, 4, 6, 4, 1100},
			{2099, 2, Claim{Seq: 1}, 0, 0, 7, 0, 3099}, // one unit came back since 1099
			{2099, 1, Claim{Seq: 2, Birth: 1, Till: 1100, Spent: 4}, 0, 0, 7, 0, 3099},
			// The first claim comes again. Nobody has what it is granted.
			{3200, 1, want(1, 4), 4, 4, 4, 4, 4200},
			{3200, 1, Claim{Seq: 3, Birth: 1, Till: 1100, Spent: 4}, 0, 0, 4, 0, 4200},
		}},
		"a lost grant is booked when it is reported": {NewBucket(1, 1000, 10, 10), []claimed{
			{100, 1, Claim{Seq: 7, Birth: 5, Till: 900, Spent: 4}, 0, 0, 6, 0, 1100},
			{100, 1, Claim{Seq: 6, Birth: 5, Till: 900, Spent: 4}, 0, 0, 6, 0, 1100}, // stale
		}},
		"a grant ends with the fixed window": {NewWindow(10, 500, false, false), []claimed{
			{600, 1, want(1, 4), 4, 4, 6, 4, 1000},
			{999, 2, Claim{Seq: 1, Spent: 2}, 0, 0, 4, 4, 1000},
			{1000, 1, Claim{Seq: 2, Birth: 1, Till: 1000, Spent: 4}, 0, 0, 10, 0, 1500},
		}},
		"a grant opens a window": {NewWindow(10, 500, true, false), []claimed{
			{600, 1, Claim{Seq: 1}, 0, 0, 10, 0, 1600},
			{600, 1, want(2, 4), 4, 4, 6, 4, 1100},
			{1100, 2, want(2, 6), 5, 5, 5, 5, 1600},
		}},
		"a claim is known until the last end that was named": {NewWindow(10, 500, true, false), []claimed{
			{600, 1, Claim{Seq: 1}, 0, 0, 10, 0, 1600},
			{600, 1, want(2, 4), 4, 4, 6, 4, 1100}, // the grant opens a window, and ends with it
			{1100, 1, want(2, 4), 4, 0, 10, 0, 1100},
			{1599, 1, want(2, 4), 4, 0, 10, 0, 1100},
			{1600, 1, want(2, 4), 4, 4, 6, 4, 2100}, // a new claim
		}},
		"a calendar's grants end with its periods": {NewCalendar(10, 300, 0, 200, 500), []claimed{
			{150, 1, want(1, 4), 4, 4, 6, 4, 200},
			{250, 2, Claim{Seq: 1}, 0, 0, 10, 0, 500},
		}},
		"a promised end stays after the clock was set back": {NewWindow(10, 500, false, false), []claimed{
			{5600, 1, want(1, 4), 4, 4, 6, 4, 6000},
			{900, 1, Claim{Seq: 2, Birth: 1, Till: 6000, Demand: 1}, 0, 4, -4, 4, 1300}, // not 1000, as for a new grant
		}},
		"a clock that is set back shortens what is left": {NewLog(10, 5000, 0, false), []claimed{
			{9000, 1, want(1, 4), 4, 4, 6, 4, 10000},
			{3000, 2, Claim{Seq: 1}, 0, 0, 6, 4, 4000},
			{4000, 2, Claim{Seq: 2}, 0, 0, 6, 0, 5000},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEscrow(c.fresh)
			for i, r := range c.rows {
				var g Grant
				g, e = e.Claim(r.now, r.holder, r.claim, terms, Result{})
				got := claimed{r.now, r.holder, r.claim, g.Units, g.Held, g.Free, g.Escrow, g.Till}
				if got != r {
					t.Errorf("row %d: got %+v\nwant %+v", i, got, r)
				}
			}
		})
	}
}

// TestExactDecisionsSeeTheEscrow: what is granted is not free, except for the overdraft.
func TestExactDecisionsSeeTheEscrow(t *testing.T) {
	_, e := NewEscrow(NewCells(10, 500, 5, false)).Claim(100, 1, want(1, 4), terms, Result{})
	for _, r := range []struct {
		overdraft, cost int64
		allowed         bool
		remaining       int64
	}{{0, 7, false, 6}, {0, 6, true, 0}, {1, 7, true, 0}, {9, 10, true, 0}, {9, 11, false, 10}} {
		got, _, after := e.Decide(at(100, r.cost), Terms{Overdraft: r.overdraft}, Result{})
		if got.Allowed != r.allowed || got.Remaining != r.remaining {
			t.Errorf("%+v: got %+v", r, got)
		}
		used := int64(0)
		if r.allowed {
			used = r.cost
		}
		if free := after.Free(100, Terms{}); free != 6-used {
			t.Errorf("%+v: %d units are free", r, free)
		}
	}
}
