package policy

// Cost says how many units a request takes of a rule's limits.
type Cost struct {
	// Units is the same for each request. Zero means Attributes.Cost, and one
	// without that.
	Units int64
	// Header is the name of a header that holds the cost, a whole number of 1 or more.
	// A request without it, or with something else in it, costs Units. Let only a header do that
	// which clients cannot set: one that a gateway in front sets or strips.
	Header string
	// Max caps what Header says. Zero caps nothing.
	Max int64
}
