package accept

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"syscall"
)

// bind opens the listener of a name at an address, HOST:PORT. Errors name the settings that choose another one. With
// shared, other processes of this user may listen there too.
func bind(name, address string, shared bool) (net.Listener, error) {
	var config net.ListenConfig
	if shared {
		config.Control = func(_, _ string, raw syscall.RawConn) error { return sharePort(raw) }
	}
	ln, err := config.Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the %s listener: %s is in use by another program; stop that one, or listen elsewhere: "+
			"--listen-%s HOST:PORT, SLUICE_LISTEN_%s, or listen.%s in the configuration", name, address, name, strings.ToUpper(name), name)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("the %s listener: %s needs more rights than this program has; choose a port from 1024 up, "+
			"or allow it to bind lower ones: --listen-%s HOST:PORT", name, address, name)
	case err != nil:
		return nil, fmt.Errorf("the %s listener: %w; give an address of this machine as HOST:PORT to --listen-%s", name, err, name)
	}
	return ln, nil
}

// bindSocket opens the listener of a name at a Unix socket, whose file gets a mode.
func bindSocket(name, path string, mode fs.FileMode) (net.Listener, error) {
	ln, err := listenSocket(path, mode)
	elsewhere := fmt.Sprintf("or listen elsewhere: --listen-%s unix:PATH, SLUICE_LISTEN_%s, or listen.%s in the configuration", name, strings.ToUpper(name), name)
	at := fmt.Sprintf("the %s listener: unix:%s", name, path)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program; stop that one, %s", at, elsewhere)
	case errors.Is(err, errNoSocket):
		return nil, fmt.Errorf("%s: %w, %s", at, err, elsewhere)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: the folder %s does not exist; make it, and let this program write there, %s", at, filepath.Dir(path), elsewhere)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: this program may not write in the folder %s; allow it, %s", at, filepath.Dir(path), elsewhere)
	case err != nil:
		return nil, fmt.Errorf("%s: %w, %s", at, err, elsewhere)
	}
	return ln, nil
}
