//go:build !unix

package direct

func isQuiet(uintptr, []byte) bool { return false }

func (d *conn) sendOnce(uintptr) bool { return true }
