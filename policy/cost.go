package policy

import (
	"errors"
	"fmt"
	"math"
	"net/textproto"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/spelling"
)

// NoCost is a cost of zero, where the zero value means one unit. A request that costs nothing passes, unless its key is
// banned or over its count.
const NoCost int64 = math.MinInt64

// Cost is how many units a request takes from a rule's limits.
type Cost struct {
	// Source is where the cost comes from. Default: Function or Header if one is given, otherwise the
	// constant.
	Source CostSource
	// Units is the same cost for each request. Zero means Attributes.Cost, or one if that is zero too.
	Units int64
	// Header is the name of the header that holds the cost, a whole number. In a header of the request
	// it is 1 or more; in a header of the response, 0 or more. If the header is missing or has another
	// value, the request costs Units, and a response leaves the cost as estimated. Use a header of
	// requests only if clients cannot set it, because a gateway in front sets or strips it.
	Header string
	// Estimate is taken first if the cost is known only afterwards; the cost is settled then. Other
	// requests cannot take these units meanwhile, so a good estimate is a high one. If the cost is
	// higher than the estimate, the difference is charged all the same. Default: one.
	Estimate int64
	// Max caps a cost from a header or a size. Zero means no cap.
	Max int64
	// Function returns the cost of a request for CostFunction: zero takes nothing, and a request with a
	// negative cost is refused. It must be safe for concurrent use.
	Function func(a *Attributes) int64
	// Model says how CostModel computes the cost. With it, Estimate is the output of a request that does not limit its
	// output, in tokens. Default: 4096, and each token costs one unit.
	Model *ModelCost
}

// CostSource is where the cost of a request comes from.
type CostSource uint8

// The sources of costs.
const (
	// CostDefault is CostFunction if Cost.Function is given, CostHeader if Cost.Header is, and
	// CostConstant otherwise.
	CostDefault CostSource = iota
	// CostConstant is Cost.Units, or the cost in the request's Attributes.
	CostConstant
	// CostHeader is a header of the request.
	CostHeader
	// CostRequestBytes is the size of the request's body in bytes. The declared size is taken first, or
	// the Estimate if none is declared. The charge is settled at the bytes that were read.
	CostRequestBytes
	// CostResponseBytes is the size of the response's body in bytes.
	CostResponseBytes
	// CostResponseHeader is a header of the response.
	CostResponseHeader
	// CostModel is what a language model used for the request. Before, the request takes an estimate of its input, and the
	// most output that it allows. The charge is settled at the usage that the answer reports.
	CostModel
	// CostFunction is what Cost.Function returns.
	CostFunction
)

var costNames = [...]string{
	CostDefault: "default", CostConstant: "constant", CostHeader: "header", CostRequestBytes: "request_bytes",
	CostResponseBytes: "response_bytes", CostResponseHeader: "response_header",
	CostModel: "model", CostFunction: "function",
}

// String returns the source in a word.
func (s CostSource) String() string {
	if int(s) < len(costNames) {
		return costNames[s]
	}
	return "unknown"
}

// AfterResponse reports whether the cost is known only once there is a response.
func (s CostSource) AfterResponse() bool {
	return s == CostResponseBytes || s == CostResponseHeader || s == CostModel
}

// estimates reports whether an estimate may be taken first.
func (s CostSource) estimates() bool { return s.AfterResponse() || s == CostRequestBytes }

// defaultSource fills in where the cost comes from.
func (c *Cost) defaultSource() {
	if c.Source == CostDefault {
		c.Source = CostConstant
		switch {
		case c.Function != nil:
			c.Source = CostFunction
		case c.Header != "":
			c.Source = CostHeader
		}
	}
}

// check reports what is wrong with a cost whose limits hold capacity units, and
// fills in its defaults.
func (c *Cost) check(capacity int64, report func(field, value string, f fault)) {
	named := c.Source == CostHeader || c.Source == CostResponseHeader
	switch {
	case int(c.Source) >= len(costNames):
		report("Cost.Source", "", fault{"is unknown", "give CostConstant, CostHeader, CostRequestBytes, CostResponseBytes, CostResponseHeader or CostModel"})
	case named && c.Header == "":
		report("Cost.Header", "", fault{"is missing", "give the name of the header that holds the cost"})
	case !named && c.Header != "":
		report("Cost.Header", c.Header, fault{fmt.Sprintf("is given, and the source is %v", c.Source), "leave one of them out"})
	case named:
		if f := fault(spelling.CheckHeader(c.Header)); f != (fault{}) {
			report("Cost.Header", c.Header, f)
		}
		c.Header = textproto.CanonicalMIMEHeaderKey(c.Header)
	}
	switch {
	case (c.Source == CostFunction) != (c.Function != nil):
		report("Cost.Function", "", fault{fmt.Sprintf("is given without CostFunction, or the other way round: the source is %v", c.Source), "give both or none"})
	case c.Source == CostFunction && (c.Units != 0 || c.Max != 0):
		report("Cost.Function", "", fault{"is given, and Units or Max too", "let the function decide"})
	}
	c.checkModel(report)
	if c.Source == CostModel && len(c.Model.Prices) > 0 {
		capacity = math.MaxInt64 // units are not tokens
	}
	c.checkUnits("Cost.Units", c.Units, capacity, report)
	c.checkUnits("Cost.Estimate", c.Estimate, capacity, report)
	switch {
	case c.Units > 0 && c.Source.estimates():
		report("Cost.Units", "", fault{fmt.Sprintf("is given, and the source is %v", c.Source), "give an estimate instead"})
	case c.Estimate > 0 && !c.Source.estimates():
		report("Cost.Estimate", "", fault{fmt.Sprintf("is for costs that are known only after the request, and the source is %v", c.Source), "leave it out"})
	case c.Estimate == 0 && c.Source.estimates():
		c.Estimate = 1
	}
	switch {
	case c.Max < 0:
		report("Cost.Max", "", is(c.Max, "give 1 or more, or 0 for no cap"))
	case c.Max > 0 && c.Source == CostConstant:
		report("Cost.Max", "", fault{"is given, and the cost is constant", "leave it out, or give the header that holds the cost"})
	case c.Max > 0 && c.Units > c.Max:
		report("Cost.Max", "", fault{fmt.Sprintf("is %d, less than the units", c.Max), fmt.Sprintf("give %d or more", c.Units)})
	case c.Max > 0 && c.Estimate > c.Max:
		report("Cost.Max", "", fault{fmt.Sprintf("is %d, less than the estimate", c.Max), fmt.Sprintf("give %d or more", c.Estimate)})
	}
}

func (c *Cost) checkUnits(field string, n, capacity int64, report func(field, value string, f fault)) {
	switch {
	case n < 0:
		report(field, "", is(n, "give 1 or more, or 0 for "+map[string]string{
			"Cost.Units": "what the request says", "Cost.Estimate": "one",
		}[field]))
	case n > capacity:
		report(field, "", fault{fmt.Sprintf("is %d, and a limit of the rule never gives more than %d, so no request would pass", n, capacity), fmt.Sprintf("give %d or less", capacity)})
	}
}

// of returns what a request costs, as far as it is known before it is handled.
func (c *Cost) of(a *Attributes) int64 {
	switch c.Source {
	case CostFunction:
		return c.Function(a)
	case CostHeader:
		if r := a.Read(FromHeader, c.Header); r.Count == CountOne {
			if n, ok := parseUnits(r.First); ok && n > 0 {
				return c.capped(n)
			}
		} else if r.Count != CountNone {
			return c.highest(a)
		}
	case CostRequestBytes:
		if a.RequestBytes >= 0 {
			return c.capped(a.RequestBytes)
		}
		return c.Estimate
	case CostResponseBytes, CostResponseHeader:
		return c.Estimate
	}
	return c.units(a.Cost)
}

// units returns the cost without a header. The argument is Attributes.Cost of the request.
func (c *Cost) units(given int64) int64 {
	switch {
	case c.Units > 0:
		return c.Units
	case given == NoCost:
		return 0
	case given != 0:
		return given
	case c.Estimate > 0:
		return c.Estimate
	default:
		return 1
	}
}

func (c *Cost) capped(n int64) int64 {
	if c.Max > 0 {
		return min(n, c.Max)
	}
	return n
}

// highest returns the highest of several costs in the header, so that no client pays less by adding one.
// Text that is not a number costs as much as a request without the header.
func (c *Cost) highest(a *Attributes) (most int64) {
	all, _ := a.readAll(FromHeader, c.Header)
	for _, text := range all {
		n, ok := parseUnits(text)
		if !ok || n == 0 {
			n = c.units(a.Cost)
		}
		most = max(most, n)
	}
	return c.capped(most)
}

// parseUnits reads a number of units. A number beyond 63 bits is the largest number: it costs the cap or,
// without a cap, more than any limit holds.
func parseUnits(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63) // takes no sign
	return int64(n), err == nil || errors.Is(err, strconv.ErrRange)
}

// Outcome is the result of a request that was handled.
type Outcome struct {
	// Status is the status of the response.
	Status int
	// RequestBytes and ResponseBytes are the sizes of the bodies, as they were read and written.
	RequestBytes, ResponseBytes int64
	// Header returns a header of the response, by its canonical name; nil for a response without
	// headers.
	Header func(name string) (value string, ok bool)
	// Usage is what the answer of a language model reports; nil if it reports nothing.
	Usage *Usage
	// Unknown means that nobody saw the response, for example because the client left before it began. The
	// request counts whatever its status, and at least its estimate stays charged.
	Unknown bool
	// Unsent means that the request was not passed on to the service that it is for.
	Unsent bool
	// Partial means that the response broke off. At least the estimate of its size or usage stays charged.
	Partial bool
	// Running means that the work may go on after the request, for example in a service behind a proxy. Leases
	// are then not released: they end by their time to live.
	Running bool
}

// negativeCost is the error of a request that would give units back.
func negativeCost(name string) error {
	return &sluice.RequestError{Limit: name, Problem: "the cost is negative; to give units back, settle or cancel their charge"}
}
