//go:build !linux

package redistest

import (
	"errors"
	"os/exec"
)

// isolate returns an error: other systems have no network namespaces.
func isolate(*exec.Cmd) error {
	return errors.New("redistest: only Linux has network namespaces; run this test there")
}
