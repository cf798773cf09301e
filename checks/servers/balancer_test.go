package servers

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// balance starts HAProxy as a balancer of TCP connections before a server. It returns two addresses: one sends version 1
// of the PROXY protocol, the other version 2. HAProxy checks the server's health over version 2.
func balance(t *testing.T, server string) (addresses [2]string) {
	t.Helper()
	haproxy, err := process.Find("haproxy", "haproxy")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := redistest.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	config.WriteString("global\n  nbthread 1\ndefaults\n  mode tcp\n  timeout connect 10s\n  timeout client 30s\n  timeout server 30s\n")
	for i, option := range []string{"send-proxy", "send-proxy-v2 check check-send-proxy inter 100ms"} {
		addresses[i] = "127.0.0.1:" + ports[i]
		fmt.Fprintf(&config, "listen balancer%d\n  bind %s\n  server sluice %s %s\n", i, addresses[i], server, option)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, exec.Command(haproxy, "-db", "-f", file))
	for _, address := range addresses {
		if err := p.Accepts(address); err != nil {
			t.Fatal(err)
		}
	}
	return addresses
}

// from sends a request from an address of this machine, and returns the status.
func from(t *testing.T, client, address string, header ...string) int {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(client), 0)), Timeout: process.Patience}
	c, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(process.Patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s\r\n", strings.Join(append(header, ""), "\r\n"))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// Behind HAProxy as a balancer of TCP, each client has its own budget, whichever version of the PROXY protocol the
// balancer speaks, and whatever headers the client adds.
func TestClientsBehindHAProxy(t *testing.T) {
	s := serve(t, `listen: {proxy: {address: "127.0.0.1:0", proxy_protocol: true}, api: "127.0.0.1:0", admin: "127.0.0.1:0"}
trusted_proxies: [127.0.0.1/32]
rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h, burst: 3}}]
`)
	addresses := balance(t, s.Address("proxy"))
	for _, client := range []string{"127.0.0.2", "127.0.0.3"} {
		for i, want := range []int{200, 200, 200, 429, 429} {
			if got := from(t, client, addresses[i%2], fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i)); got != want {
				t.Errorf("request %d of %s is answered %d, want %d", i, client, got, want)
			}
		}
	}
}
