package policy

import "context"

type contextKey struct{}

// FromContext returns the verdict from the context of a request or a call, if the edge keeps it there: see
// httplimit.Options.Context and grpclimit.ServerOptions.Context.
func FromContext(ctx context.Context) (*Verdict, bool) {
	v, ok := ctx.Value(contextKey{}).(*Verdict)
	return v, ok
}

// NewContext returns a context that holds a verdict for FromContext: for tests of handlers, and for edges of your own.
func NewContext(ctx context.Context, v *Verdict) context.Context {
	return context.WithValue(ctx, contextKey{}, v)
}
