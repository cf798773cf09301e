//go:build (amd64 || arm64) && !race

package memory

// set writes a key in a frozen shard. Other goroutines may read it meanwhile: a word is written as a
// whole. They decide nothing from what they have read until they have locked the entry and seen that
// the shard is not frozen. Freezing and unfreezing are atomic, and order all that happens between
// them. So set needs no order of its own, and is a plain store: an atomic one waits on amd64 until all
// earlier writes have reached their cache lines.
func (h *half) set(x uint64) { *h = half(x) }
