package app

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/server/internal/describe"
)

// Announce prints where the server listens and, if rules are hybrid, the mode of each rule. For the quick start it also
// prints what to try.
func (a *App) Announce(w io.Writer, quickStart bool) error {
	var text strings.Builder
	if quickStart {
		a.announceQuickStart(&text)
	} else {
		for _, s := range a.servers {
			// Scripts read the address up to the end of its line.
			fmt.Fprintf(&text, "%-6s %s\n", s.name, s.url())
			if more := s.remark(a.notes(s.name)...); more != "" {
				fmt.Fprintf(&text, "       %s\n", more)
			}
		}
		if a.redis != nil {
			text.WriteString(describe.Modes(a.engine.decider.Policy().Rules()))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// notes returns what a listener's line says besides its address.
func (a *App) notes(name string) []string {
	switch {
	case name == Proxy && a.file.Upstream.BuiltIn():
		return []string{"in front of a built-in service that echoes each request"}
	case name == Auth || name == SPOE:
		return []string{"for trusted_proxies"}
	}
	return nil
}

// remark returns a text after a separator; empty without a text.
func remark(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// remark returns what there is to say about the address of a listener, with further notes.
func (s *server) remark(notes ...string) string {
	var all []string
	if everywhere(s.Listener.Addr()) {
		all = append(all, "every address of this machine")
	}
	if s.IsSocket() && s.secure {
		all = append(all, "over TLS") // url has no scheme
	}
	if s.access != "" {
		all = append(all, s.access)
	}
	return strings.Join(append(all, notes...), ", ")
}

// url returns the address of a listener as it is configured, with the port that it got.
func (s *server) url() string {
	if s.IsSocket() {
		return s.at
	}
	return s.scheme + "://" + shown(s.Listener.Addr(), s.at)
}

// everywhere reports whether a listener is at every address of this machine.
func everywhere(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsUnspecified()
}

// shown returns the address of a listener. Where the system has [::] for 0.0.0.0, it is the configured address.
func shown(addr net.Addr, configured string) string {
	host, _, err := net.SplitHostPort(configured)
	if tcp, ok := addr.(*net.TCPAddr); ok && everywhere(addr) && err == nil && host != "" {
		return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
	}
	return addr.String()
}

// URL returns where programs on this machine reach a listener; empty if it is off.
func (a *App) URL(name string) string {
	for _, s := range a.servers {
		if s.name != name {
			continue
		}
		if everywhere(s.Listener.Addr()) {
			return s.scheme + "://" + shown(s.Listener.Addr(), "localhost:0")
		}
		return s.url()
	}
	return ""
}
