package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"

	"github.com/sluicehq/sluice/policyfile"
)

// bind opens a listener of the configuration, nil if it is off.
func bind(name string, l policyfile.Listener) (net.Listener, error) {
	if l.Off() {
		return nil, nil //nolint:nilnil // a listener may be off
	}
	if path, mode := l.Socket(); path != "" {
		return bindSocket(name, path, mode)
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

// bindSocket opens a listener at a Unix socket.
func bindSocket(name, path string, mode fs.FileMode) (net.Listener, error) {
	ln, err := listenSocket(path, mode)
	elsewhere := fmt.Sprintf("or listen elsewhere: --listen-%s unix:PATH, SLUICE_LISTEN_%s, or listen.%s in the configuration", name, upper(name), name)
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
