package decisions

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// ahead is an allowance as the law expects it.
type ahead struct {
	policy.Allowance
	used int64
}

// hasAhead reports whether the algorithm can lack units that an allowance has.
func (x *overriding) hasAhead() bool { return x.most != nil && x.name != "leaky_bucket" }

// grant gives a tenant an allowance, gives it more, or takes it back.
func (x *overriding) grant() {
	if !x.hasAhead() {
		return
	}
	name := rapid.SampledFrom(x.tenants).Draw(x.T, "tenant").name
	a := x.ahead[name]
	switch change := rapid.IntRange(0, 5).Draw(x.T, "grant"); {
	case change == 0:
		if got := x.table.Remove(policy.AllowancesOf(lawRule), sluice.StringKey(name)); got != (a != nil) {
			x.Fatalf("removing the allowance of %s reports %v, want %v", name, got, a != nil)
		}
		delete(x.ahead, name)
		return
	case change < 3 || a == nil:
		x.granted++
		a = &ahead{Allowance: policy.Allowance{ID: fmt.Sprint("id", x.granted)}}
	}
	a.Units += rapid.Int64Range(1, 10).Draw(x.T, "units")
	until := x.now + rapid.SampledFrom([]int64{1, 5e6, 3e7, 86_400e6, 200_000e6}).Draw(x.T, "lasts")
	a.Until = time.Unix(max(a.Until.Unix(), (until+999_999)/1_000_000), 0)
	x.ahead[name] = a
	x.setAhead(x.table, name, a)
}

// setAhead puts an allowance into a table.
func (x *overriding) setAhead(to *policy.OverrideTable, name string, a *ahead) {
	if err := to.Set(policy.AllowancesOf(lawRule), sluice.StringKey(name), a.String(), a.Until); err != nil {
		x.Fatal(err)
	}
}

// payer returns the allowance that must pay for a request: if it has the whole cost, and the limit lacks units or would let the request wait.
func (x *overriding) payer(of *tenant, w written, a policy.Attributes, list policy.List) *ahead {
	paid := x.ahead[of.name]
	if paid == nil || list != policy.NotListed {
		return nil
	}
	a.MaxWait = sluice.NoWait
	v := w.without.Peek(x.Context(), x.stores[0], &a)
	if v.Allowed() || paid.used+a.Cost > paid.Units {
		return nil
	}
	return paid
}
