package peers

import "sync"

// mutexMap makes a keyed limiter of a limiter for one key, as most services
// do by hand: a map under a mutex, which is held for the look-up only.
type mutexMap[L any] struct {
	mu   sync.Mutex
	keys map[string]L
	make func() L
	take func(L) bool
}

func newMutexMap[L any](newLimiter func() L, take func(L) bool) *mutexMap[L] {
	return &mutexMap[L]{keys: make(map[string]L), make: newLimiter, take: take}
}

func (m *mutexMap[L]) Take(key string) bool {
	m.mu.Lock()
	l, ok := m.keys[key]
	if !ok {
		l = m.make()
		m.keys[key] = l
	}
	m.mu.Unlock()
	return m.take(l)
}

func (m *mutexMap[L]) Close() {}
