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
