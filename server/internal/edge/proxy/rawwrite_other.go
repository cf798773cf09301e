//go:build !unix

package proxy

func isQuiet(uintptr, []byte) bool { return false }

func (d *directConn) sendOnce(uintptr) bool { return true }
