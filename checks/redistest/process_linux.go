package redistest

import "syscall"

// endsWithParent makes the system kill a server whose parent is gone: a test that
// runs into its time limit cleans nothing up.
func endsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
