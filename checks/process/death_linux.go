package process

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the system kill a process whose parent is gone: a test that exceeds its time
// cleans nothing up.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
