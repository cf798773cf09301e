package expression

import (
	"net/netip"

	"github.com/expr-lang/expr/vm"

	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// run is what an expression needs to run once.
type run struct {
	machine    vm.VM
	variables  variables
	networks   map[string]netip.Prefix
	attributes *policy.Attributes
	pressure   func(rule string) float64
	unclear    bool // a value of which services may read another one was used
}

func newRun(e *Expression) *run {
	r := &run{networks: e.networks}
	r.machine.MemoryBudget = maxMemory
	v := &r.variables
	v.Header = r.of(policy.FromHeader)
	v.Cookie = r.of(policy.FromCookie)
	v.Query = r.of(policy.FromQuery)
	v.Claim = r.of(policy.FromClaim)
	v.Attribute = r.of(source.Attribute)
	v.InNetwork = func(network string) bool {
		p := r.networks[network]
		return r.attributes.ClientIP.IsValid() && p.Contains(r.attributes.ClientIP.WithZone(""))
	}
	v.Pressure = func(rule string) float64 {
		if r.pressure == nil {
			return 0
		}
		return r.pressure(rule)
	}
	v.Number = func(text string) int {
		n, certain := number(text)
		r.unclear = r.unclear || !certain
		return n
	}
	return r
}

// of returns a function that reads values of the request.
func (r *run) of(s policy.Source) func(string) string {
	return func(name string) string {
		value := r.attributes.Read(s, name)
		r.unclear = r.unclear || value.Count > policy.CountOne
		return value.First
	}
}

// clear forgets the request.
func (r *run) clear() {
	r.attributes, r.pressure = nil, nil
	v := &r.variables
	v.Method, v.Host, v.Path, v.ClientIP, v.Class = "", "", "", "", ""
	stack := r.machine.Stack[:cap(r.machine.Stack)]
	clear(stack)
}
