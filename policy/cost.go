package policy

import (
	"fmt"
	"net/textproto"
	"strconv"
)

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

// check reports what is wrong with a cost whose limits hold capacity units, and
// makes the header's name canonical.
func (c *Cost) check(capacity int64, report func(field, value, problem string)) {
	switch {
	case c.Units < 0:
		report("Cost.Units", "", fmt.Sprintf("is %d; give 1 or more, or 0 for what the request says", c.Units))
	case c.Units > capacity:
		report("Cost.Units", "", fmt.Sprintf("is %d, and a limit of the rule never gives more than %d: no request would pass", c.Units, capacity))
	}
	if c.Header != "" {
		if problem := checkHeader(c.Header); problem != "" {
			report("Cost.Header", c.Header, problem)
		}
		c.Header = textproto.CanonicalMIMEHeaderKey(c.Header)
	}
	switch {
	case c.Max < 0:
		report("Cost.Max", "", fmt.Sprintf("is %d; give 1 or more, or 0 for no cap", c.Max))
	case c.Max > 0 && c.Header == "":
		report("Cost.Max", "", "is set without a header, which it is for; give both or none")
	case c.Max > 0 && c.Units > c.Max:
		report("Cost.Max", "", fmt.Sprintf("is %d, less than the units of %d", c.Max, c.Units))
	}
}

// of returns what a request costs.
func (c *Cost) of(a *Attributes) int64 {
	if c.Header != "" {
		text, _ := a.header(c.Header)
		// ParseUint takes no sign. A cost beyond 63 bits is as good as the cap.
		if n, err := strconv.ParseUint(text, 10, 63); err == nil && n > 0 {
			if c.Max > 0 && n > uint64(c.Max) {
				return c.Max
			}
			return int64(n)
		}
	}
	return c.units(a.Cost)
}

// units returns the cost without a header, of a request that says asked.
func (c *Cost) units(asked int64) int64 {
	switch {
	case c.Units > 0:
		return c.Units
	case asked != 0:
		return asked
	default:
		return 1
	}
}
