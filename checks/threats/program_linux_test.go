package threats

import "syscall"

// endsWithParent makes the system kill a process whose parent is gone: a test that exceeds its time
// cleans nothing up.
func endsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
