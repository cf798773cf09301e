//go:build !linux

package threats

import "syscall"

// endsWithParent returns nil: other systems have no such signal.
func endsWithParent() *syscall.SysProcAttr { return nil }
