package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/sluicehq/sluice/policyfile"
)

// bind opens a listener of the configuration, nil if it is off.
func bind(name string, l policyfile.Listener) (net.Listener, error) {
	if l.Off() {
		return nil, nil //nolint:nilnil // a listener may be off
	}
	var config net.ListenConfig
	ln, err := config.Listen(context.Background(), "tcp", l.Address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the %s listener: %s is in use by another program; stop that one, or listen elsewhere: "+
			"--listen-%s HOST:PORT, SLUICE_LISTEN_%s, or listen.%s in the configuration", name, l.Address, name, upper(name), name)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("the %s listener: %s needs more rights than this program has; choose a port from 1024 up, "+
			"or allow it to bind lower ones: --listen-%s HOST:PORT", name, l.Address, name)
	case err != nil:
		return nil, fmt.Errorf("the %s listener: %w; give an address of this machine as HOST:PORT to --listen-%s", name, err, name)
	}
	return ln, nil
}

// upper writes a name in capitals.
func upper(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
