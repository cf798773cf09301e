// Package gate carries out the verdicts of package policy for every edge. It has no protocol. It lets
// requests wait for their turn, and holds their leases while they are handled. It settles their real
// costs, and measures the pressure on each rule.
//
// An edge takes a verdict from a policy, gives it to [Gate.Enter], handles the request if there
// is no error, and ends it with [Admission.Leave]:
//
//	v := rules.Decide(ctx, store, &attributes)
//	admission, err := g.Enter(ctx, &v)
//	if err != nil {
//		return refuse(&v) // the verdict says when to come back
//	}
//	outcome := handle()
//	admission.Leave(ctx, outcome)
package gate
