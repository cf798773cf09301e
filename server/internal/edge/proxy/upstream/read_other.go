//go:build !unix

package upstream

// CanReadRaw reports whether connections are read by their descriptors.
const CanReadRaw = false

func (c *Conn) attempt(uintptr) bool { return true }
