package guard

// State is that of the circuit breaker.
type State uint8

// The states.
const (
	// Closed: the store is asked.
	Closed State = iota
	// Open: the store fails and is not asked, until the first call after a time.
	Open
	// HalfOpen: one call, the probe, is asking the store; the others do not.
	HalfOpen
)

// String returns the state in a word.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	default:
		return "half-open"
	}
}
