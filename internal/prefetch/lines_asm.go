//go:build amd64 || arm64

package prefetch

import "unsafe"

// Lines requests two cache lines of 64 bytes, from an address on, and does not wait for them. The memory need not be
// there.
//
//go:noescape
func Lines(p unsafe.Pointer)
