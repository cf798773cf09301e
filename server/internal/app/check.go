package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/observe/logfile"
	"github.com/sluicehq/sluice/server/internal/secret"
	"github.com/sluicehq/sluice/server/internal/store/remote"
	"github.com/sluicehq/sluice/server/internal/store/statefile"
)

// Check returns everything that would keep a server with these options from starting on this machine: certificates, tokens,
// secrets, and files and folders that the server could not read or write. It reads with the functions that the server uses,
// and finds all mistakes at once. The error is a reader.Errors: each mistake has the position of its setting, and the
// remedy. Check makes no file and opens no port. So it does not find that a port is in use or needs more rights, that another
// server has the saved states, or that nobody reads a pipe.
func Check(o Options) error {
	a := &App{o: o, file: o.File}
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	token, apiToken, err := a.readTokens(o.File)
	add(err)
	a.makeTokens(token, apiToken)
	add(a.checkAddresses(err == nil))
	add(a.checkListeners())
	add(a.checkUpstream())
	add(checkStore(&o.File.Store))
	_, err = fingerprinter(&o.File.Log)
	add(err)
	add(checkLog("access_log.file", o.File.AccessLog.File))
	add(checkLog("audit.file", o.File.Audit.File))
	_, err = webhookSecret(o.File.ScaleOut.Webhook)
	add(err)
	add(checkAnswers(o.File))
	all := mistakes(errors.Join(errs...))
	for _, m := range all {
		m.Path = cmp.Or(o.Overridden[m.Path], m.Path)
	}
	return o.File.Locate(all...)
}

// mistakes returns the mistakes that are joined in an error.
func mistakes(err error) []*reader.Error {
	if err == nil {
		return nil
	}
	if one, ok := err.(*reader.Error); ok { //nolint:errorlint // a wrapped one would lose its context
		return []*reader.Error{one}
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*reader.Error
		for _, err := range several.Unwrap() {
			all = append(all, mistakes(err)...)
		}
		return all
	}
	return []*reader.Error{{Problem: err.Error()}}
}

// checkListeners checks the certificates of the listeners, and the folders of their sockets.
func (a *App) checkListeners() error {
	var errs []error
	on := 0
	for _, p := range a.entrances() {
		if p.at.Off() {
			continue
		}
		on++
		if p.at.TLS != nil {
			_, err := readServerTLS(p.name, p.at.TLS)
			errs = append(errs, err)
		}
		if path, _ := p.at.Socket(); path != "" {
			if err := accept.CheckSocket(path); err != nil {
				errs = append(errs, secret.Mistake("listen."+p.name+".address", err.Error(), ""))
			}
		}
	}
	if on == 0 {
		errs = append(errs, secret.Mistake("listen", "all listeners are off", "leave one on"))
	}
	return errors.Join(errs...)
}

// checkAddresses checks that addresses are of this machine and, if the tokens are known, that no listener would answer
// everybody that is not for everybody.
func (a *App) checkAddresses(tokens bool) error {
	var errs []error
	for _, p := range a.entrances() {
		path, _ := p.at.Socket()
		if p.at.Off() || path != "" {
			continue
		}
		setting := "listen." + p.name + ".address"
		addr, err := net.ResolveTCPAddr("tcp", p.at.Address)
		if err != nil {
			errs = append(errs, secret.Mistake(setting, err.Error(), ofThisMachine))
		} else if err := isHere(addr); err != nil {
			errs = append(errs, secret.Mistake(setting, fmt.Sprintf("this machine does not have %s: %v", p.at.Address, err), ofThisMachine))
		} else if tokens && p.access != nil {
			if err := p.access.CheckAddress(addr, p.at.Address); err != nil {
				errs = append(errs, secret.Mistake(setting, strings.TrimPrefix(err.Error(), p.name+": "), ""))
			}
		}
	}
	return errors.Join(errs...)
}

const ofThisMachine = "give an address of this machine as HOST:PORT"

// isHere reports why the machine does not let a program listen at the host of an address. It opens no port: a UDP socket that
// is connected to itself takes packets of nobody else.
func isHere(addr *net.TCPAddr) error {
	if addr.IP == nil || addr.IP.IsUnspecified() {
		return nil
	}
	self := &net.UDPAddr{IP: addr.IP, Zone: addr.Zone}
	c, err := net.DialUDP("udp", self, &net.UDPAddr{IP: addr.IP, Zone: addr.Zone, Port: 9})
	if err != nil {
		if call := (*os.SyscallError)(nil); errors.As(err, &call) && call.Syscall == "bind" {
			return call.Err
		}
		return nil // another problem, which the start reports
	}
	return c.Close()
}

// checkUpstream checks the certificates for the service behind the proxy.
func (a *App) checkUpstream() error {
	target, _, err := upstream(&a.file.Upstream)
	if err == nil && target != nil && target.Scheme == "https" {
		_, err = secret.ClientTLS("upstream.tls", &a.file.Upstream.TLS)
	}
	return err
}

// checkStore checks the secrets and certificates of a store in Redis, and the file of states of one in this process.
func checkStore(s *config.Store) error {
	if r := s.Redis; r != nil {
		return remote.CheckSettings(r)
	}
	if s.Memory.File == "" {
		return nil
	}
	file, err := statefile.Check(s.Memory.File)
	if err != nil {
		return secret.Mistake("store.memory.file", err.Error(), "give a path where this program may read and write")
	}
	if file != nil {
		_ = file.Close() // nothing was written
	}
	return nil
}

// checkLog checks whether lines could be appended to a file.
func checkLog(setting, path string) error {
	if path == "" {
		return nil
	}
	if err := logfile.Check(path); err != nil {
		return secret.Mistake(setting, err.Error(), "give a path where this program may write")
	}
	return nil
}

// checkAnswers reads the files that rules answer with.
func checkAnswers(f *config.File) error {
	p, err := f.Policy()
	if err == nil {
		err = httplimit.CheckFiles(p)
	}
	if err != nil {
		return fmt.Errorf("the answers of rules: %w", err)
	}
	return nil
}
