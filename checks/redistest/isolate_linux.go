package redistest

import (
	"os/exec"
	"syscall"
)

// isolate gives a server a network namespace of its own.
func isolate(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	return nil
}
