//go:build amd64 || arm64

package memory

// prefetch requests the cache lines of an entry and the next one, and does not wait for them. They
// arrive while the clock is read: the processor loads nothing ahead beyond a read of the clock.
//
//go:noescape
func prefetch(e *entry)
