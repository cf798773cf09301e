package algo

// CheckWords reports whether words that come from elsewhere, such as a file, can be a state of this
// kind: every index in them is inside of them. The kind must not be inline.
func (p *Params) CheckWords(w []uint64) bool {
	if least, _ := p.Words(); len(w) < least {
		return false
	}
	switch p.Kind {
	case KindSlidingWindow:
		return w[cellsIndex] < 1<<63
	case KindSlidingLog:
		room := uint64(len(w)-logEntries) / 2
		return w[logHead]>>32 < room && w[logHead]&0xffffffff <= room
	case KindConcurrency:
		return w[concLeases] <= uint64(len(w)-concFirst)/leaseWords
	default:
		return true
	}
}

// Equal reports whether two limits have the same numbers. Calendars are equal if they have the same
// periods.
func (p *Params) Equal(q *Params) bool {
	if *p == *q {
		return true
	}
	if p.Fixed.Calendar == nil || q.Fixed.Calendar == nil || !p.Fixed.Calendar.alike(q.Fixed.Calendar) {
		return false
	}
	a, b := *p, *q
	a.Fixed.Calendar, b.Fixed.Calendar = nil, nil
	return a == b
}
