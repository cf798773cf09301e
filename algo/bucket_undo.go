package algo

// Missing returns the ticks that are missing from a full bucket at a time.
func (b *Bucket) Missing(s State, now int64) uint64 {
	missing, _, _, _ := b.settled(s, now)
	return missing
}

// Undo gives back a charge on which nobody has acted, as if it had never been made,
// or a little less: c.Over holds the ticks that were missing before it. Without the charge the
// bucket might have been full meanwhile; what would have run over then is not given back.
func (b *Bucket) Undo(s State, now int64, c Charge) State {
	missing, mark, at, setBack := b.settled(s, now)
	if setBack || at < c.At {
		return s
	}
	give, refilled := b.ticks(c.Cost), b.refilled(at-c.At)
	if refilled == b.bound {
		return s
	}
	if refilled > c.Over {
		give -= min(give, refilled-c.Over)
	}
	if missing > b.full && give > 0 {
		mark = lent // those who wait were told later moments
	}
	return credited(at, missing, give, mark)
}
