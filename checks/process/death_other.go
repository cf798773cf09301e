//go:build !linux

package process

import "os/exec"

// endWithParent does nothing: other systems have no such signal.
func endWithParent(*exec.Cmd) {}
