package httplimit

import (
	"context"

	"github.com/sluicehq/sluice/policy"
)

type contextKey struct{}

// FromContext returns the verdict about the request whose context this is, if the
// middleware was told to keep it by Options.Context.
func FromContext(ctx context.Context) (*policy.Verdict, bool) {
	v, ok := ctx.Value(contextKey{}).(*policy.Verdict)
	return v, ok
}

// NewContext returns a context that holds a verdict for FromContext: for tests of
// handlers, and for edges that do without the middleware.
func NewContext(ctx context.Context, v *policy.Verdict) context.Context {
	return context.WithValue(ctx, contextKey{}, v)
}
