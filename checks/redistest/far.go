package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A Far is a server in a network namespace of its own, at the end of a virtual cable. While the
// cable is cut, packets are lost in both directions without an error. Only Linux has such
// servers, and only for root.
type Far struct {
	*Server
	host  string // the server's address
	cable string // the near end of the cable
}

// StartFar runs a server at the end of a cable until the test ends.
func StartFar(tb testing.TB, opts ...Option) *Far {
	tb.Helper()
	own := func(o *options) { o.far = true }
	everywhere := Config("bind 0.0.0.0", "protected-mode no")
	s, err := New(append(forTest(tb, opts), own, everywhere)...)
	if err != nil {
		tb.Fatalf("%v\nThis test loses real packets, in a network namespace. Run it as root, or as "+
			"unshare -Urn sh -c 'ip link set lo up; go test …'", err)
	}
	f := &Far{Server: s}
	s.endWith(tb)
	if err := f.connect(); err != nil {
		tb.Fatalf("redistest: cannot lay a cable to a network namespace; it takes root and the programs ip "+
			"(Debian: iproute2) and nsenter (util-linux): %v", err)
	}
	return f
}

// Addr is where the server listens, at its end of the cable.
func (f *Far) Addr() string { return net.JoinHostPort(f.host, f.ports.plain) }

// Cut makes the cable lose all packets.
func (f *Far) Cut() error { return f.inside("link", "set", "eth0", "down") }

// Mend ends what Cut has begun.
func (f *Far) Mend() error { return f.inside("link", "set", "eth0", "up") }

// connect lays the cable. It ends with the server's process, which has the far end.
func (f *Far) connect() error {
	pid := strconv.Itoa(f.PID())
	// Addresses from the range for measurements of networks, 198.18.0.0/15.
	third, fourth := rand.IntN(256), 4*rand.IntN(64)
	near := fmt.Sprintf("198.18.%d.%d", third, fourth+1)
	f.host = fmt.Sprintf("198.18.%d.%d", third, fourth+2)
	f.cable = "sluice" + pid
	const mac = "02:00:00:00:00:02"
	return errors.Join(
		run("ip", "link", "add", f.cable, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", pid),
		run("ip", "addr", "add", near+"/30", "dev", f.cable),
		run("ip", "link", "set", f.cable, "up"),
		f.inside("addr", "add", f.host+"/30", "dev", "eth0"),
		f.inside("link", "set", "eth0", "up"),
		// Otherwise this end would look for the other one once a second while the cable is cut.
		run("ip", "neigh", "replace", f.host, "lladdr", mac, "nud", "permanent", "dev", f.cable),
	)
}

// inside runs ip in the server's namespace.
func (f *Far) inside(args ...string) error {
	return run("nsenter", append([]string{"-t", strconv.Itoa(f.PID()), "-n", "ip"}, args...)...)
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
