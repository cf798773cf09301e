package httplimit

import (
	"fmt"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// PerClient returns middleware that gives each client address a rate such as "100/m", in a token
// bucket, over a memory store of its own. It is all that many services need:
//
//	limit, err := httplimit.PerClient("100/m")
//	…
//	http.ListenAndServe(address, limit(mux))
//
// The client is the peer of the connection, an IPv6 client its /64 network: no header that a client
// can write chooses another budget. Behind a proxy all requests come from one peer; use
// NewKeyDecider with the Part of a ClientIP there.
func PerClient(rate string) (func(next http.Handler) http.Handler, error) {
	r, err := sluice.ParseRate(rate)
	if err != nil {
		return nil, fmt.Errorf("httplimit: PerClient: %w", err)
	}
	limit, err := sluice.NewLimit("per-client", sluice.TokenBucket{Rate: r})
	if err != nil {
		return nil, fmt.Errorf("httplimit: PerClient: %w", err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		return nil, fmt.Errorf("httplimit: PerClient: %w", err)
	}
	decider, err := NewKeyDecider(KeyOptions{Store: store, Limits: []*sluice.Limit{limit}, Key: []Part{PeerIP(MissingShared)}})
	if err != nil {
		return nil, err
	}
	m, err := New(decider, Options{})
	if err != nil {
		return nil, err
	}
	return m.Wrap, nil
}
