// Package httplimit limits requests to net/http handlers. It stands over packages
// policy and sluice, and under whatever serves HTTP: it translates a request into
// a question, and the answer into headers, a wait or a refusal.
//
// A [Middleware] wraps a handler and asks a [Decider] about each request. Most
// programs want the one that NewKeyDecider makes, which is a store, some limits and
// the parts of the request that tell clients apart:
//
//	decider, err := httplimit.NewKeyDecider(httplimit.KeyOptions{
//		Store:  store,
//		Limits: []*sluice.Limit{limit},
//		Key:    []httplimit.Part{httplimit.PeerIP(httplimit.MissingShared)},
//	})
//	…
//	limiter, err := httplimit.New(decider, httplimit.Options{})
//	…
//	http.ListenAndServe(address, limiter.Wrap(mux))
//
// Those that have rules for different requests want NewPolicyDecider.
//
// Headers that proxies set are not believed unless a [ClientIP] is told which
// proxies to trust.
package httplimit
