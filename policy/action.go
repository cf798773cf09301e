package policy

// Action is what becomes of a request, the graver ones last.
type Action uint8

// The actions.
const (
	// Allow lets the request pass, after the verdict's Delay.
	Allow Action = iota
	// Mark lets it pass as a marked one: with a header for those behind, and for the
	// rules that match marked traffic, which is to go first when there is too much.
	Mark
	// Degrade answers it with less: from a fallback, or with a header that tells
	// the service behind to do less.
	Degrade
	// Deny refuses it.
	Deny
)

var actionNames = [...]string{Allow: "allow", Mark: "mark", Degrade: "degrade", Deny: "deny"}

// String returns the action in a word.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "unknown"
}

// advisory reports whether a rule with this action lets all requests pass.
func (a Action) advisory() bool { return a == Mark || a == Degrade }
