package granttest

import (
	"slices"

	"github.com/sluicehq/sluice/internal/oracle"
)

// Fault is a defect of the server. Tests inject it to prove that they notice it.
type Fault uint8

// The faults.
const (
	Correct            Fault = iota
	GrantsIgnoreEscrow       // a grant takes what others hold for free
	ExactIgnoresEscrow       // an exact decision takes what is granted for free
	BooksAtGrant             // units count as used from their grant on, not from their report on
	ForgetsExpired           // an expired grant is dropped and counts as unused
	ForgetsReports           // a report takes units from the escrow and does not count them as used
	RepeatsClaims            // a repeated claim is handled again
	HandlesStale             // a claim that comes after a later one is handled
	Faults                   // how many there are, that a limit with one version shows
	BooksAnew                // a claim books under its own numbers, whatever the state has
)

// String returns what a server with the fault does.
func (f Fault) String() string {
	return [...]string{
		"has no defect", "ignores the escrow in grants", "ignores the escrow in exact decisions", "books at the grant",
		"forgets expired grants", "forgets reports", "handles a repeated claim again", "handles stale claims", "", "books under the numbers of the claim",
	}[f]
}

// Claim is Escrow.Claim with the fault.
func (f Fault) Claim(e oracle.Escrow, now int64, id uint64, c oracle.Claim, t oracle.Terms, guess oracle.Result) (oracle.Grant, oracle.Escrow) {
	e = f.at(e, now, t)
	mine := slices.IndexFunc(e.Holders, func(h oracle.Holder) bool { return h.ID == id })
	switch f {
	case GrantsIgnoreEscrow:
		hidden := units(e)
		hidden[id] = 0
		g, after := change(e, func(h *oracle.Holder) {
			if h.ID != id {
				h.Units = 0
			}
		}).Claim(now, id, c, t, guess)
		return g, change(after, func(h *oracle.Holder) { h.Units += hidden[h.ID] })
	case BooksAtGrant:
		return f.bookAtGrant(e, now, id, c, t, guess)
	case ForgetsReports:
		if mine >= 0 && c.Seq > e.Holders[mine].Seq && c.Birth != 0 && c.Birth == e.Holders[mine].Birth {
			e = change(e, func(h *oracle.Holder) {
				if h.ID == id {
					h.Units -= min(c.Spent, h.Units)
				}
			})
			c.Spent = 0
		}
	case RepeatsClaims:
		if mine >= 0 && c.Seq == e.Holders[mine].Seq {
			e = change(e, func(h *oracle.Holder) {
				if h.ID == id {
					h.Seq = 0
				}
			})
		}
	case BooksAnew:
		if t.Numbers != nil && !oracle.SameNumbers(e.State, t.Numbers) && (c.Spent > 0 || c.Returned > 0) {
			e.State = oracle.Renumber(e.State, t.Numbers, now)
		}
	case HandlesStale:
		e = change(e, func(h *oracle.Holder) {
			if h.ID == id && c.Seq < h.Seq {
				h.Seq = 0
			}
		})
	}
	return e.Claim(now, id, c, t, guess)
}

// bookAtGrant counts units as used when they are granted.
func (f Fault) bookAtGrant(e oracle.Escrow, now int64, id uint64, c oracle.Claim, t oracle.Terms, guess oracle.Result) (oracle.Grant, oracle.Escrow) {
	held, births := units(e), map[uint64]uint64{}
	for _, h := range e.Holders {
		births[h.ID] = h.Birth
	}
	plain := c
	plain.Birth, plain.Spent, plain.Returned = 0, 0, 0
	g, after := change(e, func(h *oracle.Holder) { h.Units, h.Birth = 0, 0 }).Claim(now, id, plain, t, guess)
	handled := !slices.ContainsFunc(e.Holders, func(h oracle.Holder) bool { return h.ID == id && c.Seq <= h.Seq })
	after = change(after, func(h *oracle.Holder) {
		h.Units = held[h.ID]
		switch {
		case h.ID != id || !handled:
			h.Birth = births[h.ID]
		case births[id] != c.Birth:
			h.Units = 0
		default:
			h.Units -= min(h.Units, c.Spent+c.Returned)
		}
		if h.ID == id && handled {
			if h.Units > 0 {
				h.Birth = births[id]
			}
			h.Units += g.Units
			g.Held, g.Birth = h.Units, h.Birth
		}
	})
	if handled && g.Units > 0 {
		after.State, _ = after.State.Take(oracle.Request{Now: now, Cost: g.Units}, true)
	}
	return g, after
}

// Decide is Escrow.Decide with the fault.
func (f Fault) Decide(e oracle.Escrow, r oracle.Request, t oracle.Terms, guess oracle.Result) (oracle.Result, oracle.Charge, oracle.Escrow) {
	e = f.at(e, r.Now, t)
	if f != ExactIgnoresEscrow && f != BooksAtGrant {
		return e.Decide(r, t, guess)
	}
	d, c, after := oracle.NewEscrow(e.State).Decide(r, t, guess)
	e.State = after.State
	return d, c, e
}

// at removes what has expired, if the fault does so in another way.
func (f Fault) at(e oracle.Escrow, now int64, t oracle.Terms) oracle.Escrow {
	if f == ForgetsExpired || f == BooksAtGrant {
		e.Holders = slices.DeleteFunc(slices.Clone(e.Holders), func(h oracle.Holder) bool { return h.Till <= now })
		return e
	}
	return e.AtTerms(now, t)
}

func units(e oracle.Escrow) map[uint64]int64 {
	m := map[uint64]int64{}
	for _, h := range e.Holders {
		m[h.ID] = h.Units
	}
	return m
}

// change returns the escrow with changed entries.
func change(e oracle.Escrow, f func(h *oracle.Holder)) oracle.Escrow {
	e.Holders = slices.Clone(e.Holders)
	for i := range e.Holders {
		f(&e.Holders[i])
	}
	return e
}
