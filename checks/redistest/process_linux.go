package redistest

import "syscall"

// attributes makes the system kill a server whose parent is gone: a test that runs into its
// time limit cleans nothing up. A far server gets a network namespace of its own.
func attributes(far bool) (*syscall.SysProcAttr, error) {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if far {
		a.Cloneflags = syscall.CLONE_NEWNET
	}
	return a, nil
}
