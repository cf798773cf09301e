package guard

// Fallback says what stands in for the store while it does not decide.
type Fallback uint8

// The rungs of the ladder.
const (
	// Default leaves it to Options.Default.
	Default Fallback = iota
	// Local limits in this process, to its share of the limit. See Share for the
	// numbers. Bans are counted for themselves there.
	Local
	// Allow lets pass what the limit could ever give, as if the key had used nothing.
	Allow
	// Deny refuses, with sluice.ReasonStoreError and a RetryAfter of a second, or of
	// the time until the store is asked again.
	Deny
)

// String returns the fallback in a word.
func (f Fallback) String() string {
	switch f {
	case Local:
		return "local"
	case Allow:
		return "allow"
	case Deny:
		return "deny"
	default:
		return "default"
	}
}
