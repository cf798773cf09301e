package algo

// Kind names an algorithm.
type Kind uint8

// The algorithms.
const (
	KindBucket Kind = iota + 1
	KindWarmBucket
	KindLeaky
	KindFixedWindow
	KindSlidingWindow
	KindSlidingCounter
	KindSlidingLog
	KindConcurrency
)

// Params are the numbers of one limit, ready to compute with: the Kind and the
// algorithm of that kind; the others are unused.
type Params struct {
	Kind Kind
	// Capacity is the most units that the limit can hold at once.
	Capacity int64

	Bucket  Bucket
	Leaky   LeakyBucket
	Fixed   FixedWindow
	Counter SlidingCounter
	Warm    WarmBucket
	Cells   SlidingWindow
	Log     SlidingLog
	Conc    Concurrency
}

// Inline reports whether the state of this kind is a State; the others are
// slices of words.
func (p *Params) Inline() bool {
	switch p.Kind {
	case KindBucket, KindLeaky, KindFixedWindow, KindSlidingCounter:
		return true
	default:
		return false
	}
}
