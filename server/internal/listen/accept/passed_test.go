package accept

import (
	"net"
	"strings"
	"testing"
)

// A socket that systemd passed is taken only at the address that the configuration has.
func TestPassedSocketsAreWhereTheConfigurationSays(t *testing.T) {
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	for _, x := range []struct {
		configured string
		at         net.Addr
		fits       bool
	}{
		{"127.0.0.1:8080", tcp("127.0.0.1", 8080), true},
		{"127.0.0.1:8080", tcp("127.0.0.1", 8081), false},
		{"127.0.0.1:8080", tcp("127.0.0.2", 8080), false},
		{"127.0.0.1:8080", tcp("::", 8080), false}, // others would reach it
		{"0.0.0.0:8080", tcp("::", 8080), true},
		{":8080", tcp("0.0.0.0", 8080), true},
		{"0.0.0.0:8080", tcp("127.0.0.1", 8080), false},
		{"unix:/run/sluice/proxy.sock", &net.UnixAddr{Net: "unix", Name: "/run/sluice/proxy.sock"}, true},
		{"unix:/run/sluice/proxy.sock", &net.UnixAddr{Net: "unix", Name: "/run/other.sock"}, false},
		{"unix:/run/sluice/proxy.sock", tcp("127.0.0.1", 8080), false},
		{"127.0.0.1:8080", &net.UnixAddr{Net: "unix", Name: "/run/sluice/proxy.sock"}, false},
	} {
		p := NamedListener{Name: "proxy", Listener: &Listener{Address: x.configured}}
		err := p.checkPassed(x.at)
		if (err == nil) != x.fits {
			t.Errorf("a socket at %v for %s: got the error %v, want one: %t", x.at, x.configured, err, !x.fits)
		}
		if err != nil && !strings.Contains(err.Error(), "give both the same address") {
			t.Errorf("the error names no remedy: %v", err)
		}
	}
}

// A socket that no listener takes is an error, which names the remedy: a client would wait there for ever.
func TestPassedSocketsAreAllTaken(t *testing.T) {
	listeners := []NamedListener{
		{Name: "auth", Listener: &Listener{}},
		{Name: "proxy", Listener: &Listener{Address: "127.0.0.1:8080"}},
	}
	for name, want := range map[string]string{
		"proxy":  "",
		"auth":   "systemd passed a socket for the auth listener, which is off; give listen.auth the address of the socket, or disable the unit",
		"sluice": "systemd passed a socket with the name sluice, and no listener has it; write FileDescriptorName= and one of auth, proxy in its unit",
	} {
		got := ""
		if err := checkPassed(map[string]net.Listener{name: nil}, listeners); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("a socket with the name %s: got the error %q, want %q", name, got, want)
		}
	}
}
