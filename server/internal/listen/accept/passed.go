package accept

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// checkPassed returns an error for sockets that no listener takes.
func checkPassed(passed map[string]net.Listener, listeners []NamedListener) error {
	var errs []error
	for name := range passed {
		i := slices.IndexFunc(listeners, func(p NamedListener) bool { return p.Name == name })
		switch {
		case i < 0:
			names := make([]string, len(listeners))
			for i := range listeners {
				names[i] = listeners[i].Name
			}
			errs = append(errs, fmt.Errorf("systemd passed a socket with the name %s, and no listener has it; write FileDescriptorName= and one of %s in its unit",
				name, strings.Join(names, ", ")))
		case listeners[i].Off():
			errs = append(errs, fmt.Errorf("systemd passed a socket for the %s listener, which is off; give listen.%s the address of the socket, or disable the unit", name, name))
		}
	}
	return errors.Join(errs...)
}

// checkPassed returns an error if a socket that systemd passed is at another address than the configuration says.
func (p *NamedListener) checkPassed(at net.Addr) error {
	mismatch := fmt.Errorf("systemd listens for the %s listener at %s, and listen.%s is %s; give both the same address", p.Name, at, p.Name, p.Address)
	if path, _ := p.Socket(); path != "" {
		if at.Network() != "unix" || at.String() != path {
			return mismatch
		}
		return nil
	}
	want, err := net.ResolveTCPAddr("tcp", p.Address)
	if err != nil {
		return fmt.Errorf("the %s listener: %w", p.Name, err)
	}
	got, ok := at.(*net.TCPAddr)
	everywhere := ok && got.IP.IsUnspecified() && (want.IP == nil || want.IP.IsUnspecified())
	if !ok || got.Port != want.Port || !everywhere && !got.IP.Equal(want.IP) {
		return mismatch
	}
	return nil
}
