package algo

import "time"

// Ban refuses a key outright for a time after it was denied too often: After
// denials within Within lead to For, and further ones in a row to the times of
// Escalate. After of zero bans nobody: the key may be banned by hand.
//
// The state holds the end of the ban, or of the period that counts denials (T), and
// the rest as BanCount packs it (V).
type Ban struct {
	After       int64
	Within, For int64 // microseconds
	// Escalate are how long the second ban in a row lasts, and those after it; the last
	// one stands for all further ones.
	Escalate []time.Duration
	// Forget is how many seconds after its end a ban, or the last period of denials, is
	// one in a row with the next.
	Forget int64
	// Prolong lets attempts begin the ban anew.
	Prolong bool
}

// BanCount is what a state holds of a ban beside its end.
type BanCount struct {
	// Count are the denials that count, zero during a ban.
	Count int64
	// Level tells which ban in a row the latest one is, from 1: zero for none, or if bans do
	// not escalate; BanByHand for one that is not from denials.
	Level int64
	// Forget is how many seconds after T the level is forgotten. Of a ban by hand, it is
	// how long it lasts, rounded up.
	Forget int64
}

const (
	// BanByHand is the level of a ban that somebody has made.
	BanByHand = 1<<banLevelBits - 1
	// MaxBanDenials is the largest Ban.After.
	MaxBanDenials = 100_000_000
	// MaxBanTimes is the most times of Ban.Escalate.
	MaxBanTimes = 16
	// MaxBanForget is the longest Ban.Forget.
	MaxBanForget = 1<<banForgetBits - 1
)

const (
	banLevelBits  = 5
	banForgetBits = 32
	second        = 1_000_000 // microseconds
)

// Pack returns the V of a state.
func (c BanCount) Pack() uint64 {
	return uint64(c.Count)<<(banLevelBits+banForgetBits) | uint64(c.Forget)<<banLevelBits | uint64(c.Level)
}

// CountOf returns what the V of a ban's state holds.
func CountOf(v uint64) BanCount {
	return BanCount{
		Count:  int64(v >> (banLevelBits + banForgetBits)),
		Level:  int64(v & BanByHand),
		Forget: int64(v >> banLevelBits & MaxBanForget),
	}
}

// BannedByHand returns the state of a key that is banned by hand, for so many microseconds.
func BannedByHand(now, length int64) State {
	return State{T: now + length, V: BanCount{Level: BanByHand, Forget: (length + second - 1) / second}.Pack()}
}

// length returns how long a ban of some level lasts.
func (b *Ban) length(level int64) int64 {
	if n := int64(len(b.Escalate)); level > 1 && n > 0 {
		return int64(b.Escalate[min(level, n+1)-2] / time.Microsecond)
	}
	return b.For
}

// Settled returns the state as of now. One that ends so far ahead that the clock
// must have been set back is moved to the new time.
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

// Banned returns the end of the ban that is in force, or zero.
func (b *Ban) Banned(s State, now int64) int64 {
	if s.T > now && CountOf(s.V).Count == 0 {
		return s.T
	}
	return 0
}

// Attempted returns the state of a key after an attempt that its ban, if it is in
// force, refused.
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

// next returns the count of a ban that comes after one of some level.
func (b *Ban) next(level int64) BanCount {
	if len(b.Escalate) == 0 {
		return BanCount{}
	}
	return BanCount{Level: min(level, int64(len(b.Escalate))) + 1, Forget: b.Forget}
}

// Fresh reports whether there is no ban, no denial that counts, and no ban that
// the next one would be in a row with.
func (b *Ban) Fresh(s State, now int64) bool { return now >= BanForgotten(s) }

// BanForgotten returns when the state of a ban equals that of a key never denied.
func BanForgotten(s State) int64 {
	if c := CountOf(s.V); c.Level != BanByHand {
		return s.T + c.Forget*second
	}
	return s.T
}
