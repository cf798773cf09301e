package policy

import "context"

// outlast returns a context that ends when the deadline of ctx does, and not when its owner
// leaves later. What a decision takes that is to be given back must become known: a client that
// leaves while the store decides would keep its place in flight for as long as leases live, and
// many such clients all places.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil || ctx.Err() != nil {
		return ctx, func() {}
	}
	lasting := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(lasting, deadline)
	}
	return lasting, func() {}
}

// returns reports whether what requests take of a limit is given back after them.
func (r *rule) returns(kind askKind) bool {
	return kind.lease || r.Cost.Source.estimates() || len(r.CountStatus) > 0
}
