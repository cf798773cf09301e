package prefetch

import "unsafe"

// Lines requests two cache lines of 64 bytes, from an address on, and does not wait for them. Where there is no
// instruction for it, it does nothing.
func Lines[T any](from *T) {
	lines(unsafe.Pointer(from)) //nolint:gosec // it reads nothing
}
