package algo

import "time"

// Ban refuses a key outright for a time after too many denials. After is how many denials, in the
// time Within, lead to a ban. The first ban lasts For, and further bans in a row last as long as
// Escalate lists. If After is zero, only bans made by hand are enforced.
//
// In the state, T is the end of the ban, or of the period in which denials are counted. V is a
// packed BanCount.
type Ban struct {
	After       int64
	Within, For int64 // microseconds
	// Escalate is how long the second ban in a row lasts, and the bans after it; the last entry
	// holds for all further bans.
	Escalate []time.Duration
	// Forget is how many seconds must pass, after the last ban or the last period of denials,
	// until the next ban is a first one.
	Forget int64
	// Prolong restarts the ban with each attempt.
	Prolong bool
}

// BanCount is the part of a ban's state that is not its end.
type BanCount struct {
	// Count is the number of denials that count; zero during a ban.
	Count int64
	// Level is the number of the latest ban in its row, from 1 to one more than the length of
	// Escalate. Zero: there is none, or bans do not escalate. BanByHand: a ban that was made by
	// hand.
	Level int64
	// Forget is how many seconds after T the level is forgotten. For a ban by hand it is how many
	// seconds the ban lasts, rounded up.
	Forget int64
}

const (
	// BanByHand is the level of a ban that was made by hand.
	BanByHand = 1<<banLevelBits - 1
	// MaxBanDenials is the largest Ban.After.
	MaxBanDenials = 100_000_000
	// MaxBanTimes bounds the length of Ban.Escalate.
	MaxBanTimes = 16
	// MaxBanForget is the longest Ban.Forget.
	MaxBanForget = 1<<banForgetBits - 1
)

const (
	banLevelBits  = 5
	banForgetBits = 32
	second        = 1_000_000 // microseconds
)

// Pack returns the count as the V of a state.
func (c BanCount) Pack() uint64 {
	return uint64(c.Count)<<(banLevelBits+banForgetBits) | uint64(c.Forget)<<banLevelBits | uint64(c.Level)
}

// CountOf returns the count in the V of a ban's state.
func CountOf(v uint64) BanCount {
	return BanCount{
		Count:  int64(v >> (banLevelBits + banForgetBits)),
		Level:  int64(v & BanByHand),
		Forget: int64(v >> banLevelBits & MaxBanForget),
	}
}

// BannedByHand returns the state of a key that is banned by hand for length microseconds.
func BannedByHand(now, length int64) State {
	return State{T: now + length, V: BanCount{Level: BanByHand, Forget: (length + second - 1) / second}.Pack()}
}

// length returns how long a ban of a level lasts.
func (b *Ban) length(level int64) int64 {
	if n := int64(len(b.Escalate)); level > 1 && n > 0 {
		return int64(b.Escalate[min(level, n+1)-2] / time.Microsecond)
	}
	return b.For
}

// Settled returns the state as of now. If the time left is more than twice the whole length, the
// clock was set back. Settled then moves the state to the new time.
func (b *Ban) Settled(s State, now int64) State {
	if s.T <= now {
		return s
	}
	c := CountOf(s.V)
	length := b.length(c.Level)
	switch {
	case c.Count > 0:
		length = b.Within
	case c.Level == BanByHand:
		length = c.Forget * second
	}
	if s.T-now > 2*length {
		s.T = now + length
	}
	return s
}

// Banned returns the end of the ban in force, or zero.
func (b *Ban) Banned(s State, now int64) int64 {
	if s.T > now && CountOf(s.V).Count == 0 {
		return s.T
	}
	return 0
}

// Attempted returns the state after an attempt of the key. With Prolong, an attempt during a ban
// restarts the ban, unless it was made by hand.
func (b *Ban) Attempted(s State, now int64) State {
	if !b.Prolong || b.Banned(s, now) == 0 {
		return s
	}
	if level := CountOf(s.V).Level; level != BanByHand {
		s.T = max(s.T, now+b.length(level))
	}
	return s
}

// Denied counts one denial.
func (b *Ban) Denied(s State, now int64) State {
	if b.After == 0 || b.Banned(s, now) > 0 {
		return s
	}
	c := CountOf(s.V)
	if c.Level == BanByHand || now >= s.T+c.Forget*second {
		c.Level, c.Forget = 0, 0
	}
	if now >= s.T {
		s.T, c.Count = now+b.Within, 0
	}
	if c.Count++; c.Count >= b.After {
		c = b.next(c.Level)
		s.T = now + b.length(c.Level)
	}
	s.V = c.Pack()
	return s
}

// next returns the count of the ban that follows a ban of a level.
func (b *Ban) next(level int64) BanCount {
	if len(b.Escalate) == 0 {
		return BanCount{}
	}
	return BanCount{Level: min(level, int64(len(b.Escalate))) + 1, Forget: b.Forget}
}

// Fresh reports whether the state equals the state of a key that was never denied. Then no ban is
// in force, no denial counts, and the next ban is a first one.
func (b *Ban) Fresh(s State, now int64) bool { return now >= BanForgotten(s) }

// BanForgotten returns when a ban's state equals the state of a key that was never denied.
func BanForgotten(s State) int64 {
	if c := CountOf(s.V); c.Level != BanByHand {
		return s.T + c.Forget*second
	}
	return s.T
}
