package algo

// Ban refuses a key outright for a time after it was denied too often: After
// denials within Within lead to For. The attempts of a banned key do not
// prolong its ban.
//
// The state holds the end of the ban, or of the period that counts denials (T),
// and the denials counted (V), zero during a ban.
type Ban struct {
	After       int64
	Within, For int64 // microseconds
}

// Settled returns the state as of now. One that ends so far ahead that the clock
// must have been set back is moved to the new time.
func (b *Ban) Settled(s State, now int64) State {
	length := b.For
	if s.V > 0 {
		length = b.Within
	}
	if s.T-now > 2*length {
		s.T = now + length
	}
	return s
}

// Banned returns the end of the ban that is in force, or zero.
func (b *Ban) Banned(s State, now int64) int64 {
	if s.T > now && s.V == 0 {
		return s.T
	}
	return 0
}

// Denied counts one denial.
func (b *Ban) Denied(s State, now int64) State {
	if b.Banned(s, now) > 0 {
		return s
	}
	if now >= s.T {
		s = State{T: now + b.Within}
	}
	if s.V++; s.V >= uint64(b.After) {
		return State{T: now + b.For}
	}
	return s
}

// Fresh reports whether there is no ban and no denial that counts.
func (b *Ban) Fresh(s State, now int64) bool { return now >= s.T }
