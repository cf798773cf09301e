//go:build !amd64 && !arm64

package memory

// prefetch does nothing where there is no instruction for it.
func prefetch(*entry) {}
