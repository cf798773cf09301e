// Package httplimit limits requests to net/http handlers. [PerClient] limits each client address in
// one line:
//
//	limit, err := httplimit.PerClient("100/m")
//	…
//	http.ListenAndServe(address, limit(mux))
//
// Everything else is a [Middleware] over a [Decider]. The middleware translates a request for the
// decider, and the verdict into headers, a wait or a refusal. NewKeyDecider makes a decider from a
// store, limits, and the parts of the request that distinguish clients:
//
//	decider, err := httplimit.NewKeyDecider(httplimit.KeyOptions{
//		Store:  store,
//		Limits: []*sluice.Limit{limit},
//		Key:    []policy.Part{policy.ClientIP()},
//	})
//	…
//	limiter, err := httplimit.New(decider, httplimit.Options{})
//	…
//	http.ListenAndServe(address, limiter.Wrap(mux))
//
// NewPolicyDecider makes a decider from the rules of a policy, for programs that limit requests in
// different ways.
//
// Headers that proxies set are ignored, except by a [ClientIP] that trusts the proxies.
package httplimit
