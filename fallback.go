package sluice

// Fallback is what decides about a request while the store cannot.
type Fallback uint8

// The fallbacks. If several limits apply to a request, one FallbackDeny is enough to refuse it.
const (
	// FallbackDefault uses the default of the options or policy.
	FallbackDefault Fallback = iota
	// FallbackAllow lets the request pass: a limiter that fails should not take the service with it. A guard admits what
	// the limit could ever admit, as if the key had used nothing.
	FallbackAllow
	// FallbackDeny refuses the request, with ReasonStoreError. Use it for work that must not run unlimited, such as
	// login attempts. A guard's RetryAfter is the time until the store may be called again, and a second at least. A
	// request that the limit never admits has ReasonNever.
	FallbackDeny
	// FallbackLocal limits the request in this process, to its share of the limit. It needs a guard.Store with a local
	// store, which then decides instead of failing: see guard.Options.Share for the numbers. Bans are counted separately
	// there. Without a guard, the request passes.
	FallbackLocal
)

var fallbackNames = [...]string{FallbackDefault: "default", FallbackAllow: "allow", FallbackDeny: "deny", FallbackLocal: "local"}

// String returns the fallback as one word.
func (f Fallback) String() string {
	if int(f) < len(fallbackNames) {
		return fallbackNames[f]
	}
	return "unknown"
}
