//go:build amd64 || arm64

package memory

// prefetch asks for the cache line of an entry and the next one, and does not wait
// for them: they come while the clock is read, past which the processor loads
// nothing ahead of time.
//
//go:noescape
func prefetch(e *entry)
