package peers

import (
	"context"
	"net/http"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
)

// sethvargo is a store of fixed windows, one per key, that open with the
// key's first request.
type sethvargo struct{ store limiter.Store }

func newSethvargo(l Limit) (Limiter, error) {
	store, err := newSethvargoStore(l)
	return sethvargo{store}, err
}

func newSethvargoStore(l Limit) (limiter.Store, error) {
	return memorystore.New(&memorystore.Config{Tokens: uint64(l.Burst), Interval: l.Window})
}

func (s sethvargo) Take(key string) bool {
	_, _, _, ok, err := s.store.Take(context.Background(), key)
	return ok && err == nil
}

// Close ignores the store's error: closing memory cannot fail.
func (s sethvargo) Close() { _ = s.store.Close(context.Background()) }

func sethvargoMiddleware(l Limit) (func(http.Handler) http.Handler, error) {
	store, err := newSethvargoStore(l)
	if err != nil {
		return nil, err
	}
	m, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	return m.Handle, nil
}
