//go:build !amd64 && !arm64

package prefetch

import "unsafe"

// Lines does nothing where there is no instruction for it.
func Lines(unsafe.Pointer) {}
