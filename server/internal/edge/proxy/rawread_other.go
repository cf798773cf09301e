//go:build !unix

package proxy

// canReadRaw reports whether connections are read by their descriptors.
const canReadRaw = false

func (c *upstreamConn) attempt(uintptr) bool { return true }
