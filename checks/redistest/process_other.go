//go:build !linux

package redistest

import (
	"errors"
	"syscall"
)

// attributes returns nil: other systems have no such signal, and no network namespaces.
func attributes(far bool) (*syscall.SysProcAttr, error) {
	if far {
		return nil, errors.New("redistest: only Linux has network namespaces; run this test there")
	}
	return nil, nil
}
