//go:build !(amd64 || arm64) || race

package memory

// set writes a key in a frozen shard. The race detector demands an atomic store, and so do processors
// whose words are shorter than a key. See half_plain.go.
func (h *half) set(x uint64) { h.Store(x) }
