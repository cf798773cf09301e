//go:build !linux

package redistest

import "syscall"

// endsWithParent asks for nothing: other systems have no such signal.
func endsWithParent() *syscall.SysProcAttr { return nil }
