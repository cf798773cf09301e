// Package gate carries verdicts out, for every edge and in no protocol of its own: it
// lets requests wait their turn, holds what they take of concurrency limits while they
// run, settles what they turn out to cost, and knows the pressure on each rule.
//
// It stands over packages policy and sluice. An edge asks a policy for a verdict, gives it to
// [Gate.Enter], handles the request if there is no error, and ends it with [Admission.Leave]:
//
//	v := rules.Decide(ctx, store, &attributes)
//	pass, err := g.Enter(ctx, &v)
//	if err != nil {
//		return refuse(&v) // which says when to come back
//	}
//	outcome := handle()
//	pass.Leave(ctx, outcome)
package gate
