package accept

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// NamedListener is a listener of the configuration with its name, and the callers that it is for.
type NamedListener struct {
	Name string
	*Listener
	Audience access.Audience
	// Usage describes the listener in the help of its flag.
	Usage string
}

// Path returns the setting of the listener.
func (p *NamedListener) Path() string { return "listen." + p.Name }

// bind opens the listener.
func (p *NamedListener) bind() (net.Listener, error) {
	if path, mode := p.Socket(); path != "" {
		return bindSocket(p.Name, path, mode)
	}
	return bind(p.Name, p.Address, p.ReusePort)
}

// Check returns what would keep listeners from opening on this machine: certificates, folders of sockets, addresses of
// other machines, and addresses at which others would reach a listener that is not for everybody. It opens no port.
// Without callers, because their tokens are unknown, it does not check the last.
func Check(listeners []NamedListener, callers *access.Callers) error {
	var errs []error
	on := 0
	for i := range listeners {
		if p := &listeners[i]; !p.Off() {
			on++
			errs = append(errs, p.check(callers))
		}
	}
	if on == 0 {
		errs = append(errs, secret.Mistake("listen", "all listeners are off", "leave one on"))
	}
	return errors.Join(errs...)
}

func (p *NamedListener) check(callers *access.Callers) error {
	var certificate error
	if p.TLS != nil {
		_, certificate = p.readTLS()
	}
	path, _ := p.Socket()
	if path == "" {
		return errors.Join(certificate, p.checkAddress(callers))
	}
	if err := checkSocketFile(path); err != nil {
		return errors.Join(certificate, secret.Mistake(p.Path()+".address", err.Error(), ""))
	}
	return certificate
}

func (p *NamedListener) checkAddress(callers *access.Callers) error {
	const remedy = "give an address of this machine as HOST:PORT"
	setting := p.Path() + ".address"
	addr, err := net.ResolveTCPAddr("tcp", p.Address)
	if err != nil {
		return secret.Mistake(setting, err.Error(), remedy)
	}
	if err := isHere(addr); err != nil {
		return secret.Mistake(setting, fmt.Sprintf("this machine does not have %s: %v", p.Address, err), remedy)
	}
	if callers == nil {
		return nil
	}
	rules := callers.Rules(p.Name, p.Audience, p.TLS.RequiresClient())
	if rules == nil {
		return nil
	}
	if err := rules.CheckAddress(addr, p.Address); err != nil {
		return secret.Mistake(setting, strings.TrimPrefix(err.Error(), p.Name+": "), "")
	}
	return nil
}

// isHere reports why the machine does not let a program listen at the host of an address. It opens no port: a UDP
// socket that is connected to itself takes packets of nobody else.
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
