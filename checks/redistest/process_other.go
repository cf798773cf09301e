//go:build !linux

package redistest

import "syscall"

// endsWithParent returns nil: other systems have no such signal.
func endsWithParent() *syscall.SysProcAttr { return nil }
