package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// behindBalancer is a policy whose clients come through a balancer at 127.0.0.1.
const behindBalancer = `version: 1
listen: {proxy: {address: "127.0.0.1:0", proxy_protocol: true}, api: off, admin: "127.0.0.1:0"}
trusted_proxies: [127.0.0.1/32]
http: {header_timeout: 500ms, max_connections_per_client: 2}
rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h, burst: 2}}]
`

// request is one request on a connection that ends after it.
const request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// fromPeer opens a connection from an address of this machine.
func fromPeer(t *testing.T, r *running, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.URL(Proxy), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// answerTo sends bytes in pieces and returns the status of the answer, 0 without one.
func answerTo(t *testing.T, c net.Conn, pieces ...string) int {
	t.Helper()
	for _, p := range pieces {
		if _, err := io.WriteString(c, p); err != nil {
			return 0
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// version2 is the header of version 2 for a client.
func version2(t *testing.T, client string) string {
	t.Helper()
	from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))
	to := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	if from.IP.To4() == nil {
		to.IP = net.IPv6loopback
	}
	h := proxyproto.HeaderProxyFromAddrs(2, from, to)
	text, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each client behind the balancer has its own budget, whatever the version of the header, and with other bytes
// behind it in the same packet or not.
func TestClientsBehindABalancer(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, behindBalancer), nil)
	for i, x := range []struct {
		pieces []string
		want   int
	}{
		{[]string{"PROXY TCP4 192.0.2.1 127.0.0.1 5000 80\r\n", request}, 200},
		{[]string{"PROXY TCP4 192.0.2.1 127.0.0.1 5001 80\r\n" + request}, 200},
		{[]string{version2(t, "192.0.2.1:5002") + request}, 429},
		{[]string{version2(t, "192.0.2.2:5002"), request}, 200},
		{[]string{version2(t, "[::ffff:192.0.2.2]:5002") + request}, 200},
		{[]string{"PROXY TCP6 ::ffff:192.0.2.2 ::1 5000 80\r\n" + request}, 429},
		{[]string{version2(t, "[2001:db8::1]:5002") + request}, 200},
		{[]string{version2(t, "[2001:db8::2]:5002") + request}, 200},
		{[]string{version2(t, "[2001:db8::3]:5002") + request}, 429}, // the same /64
		{[]string{"PROXY UNKNOWN\r\n" + request}, 200},               // the balancer itself
	} {
		if got := answerTo(t, fromPeer(t, r, "127.0.0.1"), x.pieces...); got != x.want {
			t.Errorf("%d: %q is answered %d, want %d", i, x.pieces, got, x.want)
		}
	}
}

// A client cannot choose its address, by a header of its own or by a second one, and a connection of the balancer
// without a valid header gets no answer of the service.
func TestHeadersOfTheProxyProtocolAreNotBelieved(t *testing.T) {
	r := start(t, parse(t, behindBalancer), nil)
	const header = "PROXY TCP4 192.0.2.1 127.0.0.1 5000 80\r\n"
	for name, x := range map[string]struct {
		from string
		send string
		want int
	}{
		"no header":              {"127.0.0.1", request, 0},
		"a cut header":           {"127.0.0.1", "PROXY TCP4 192.0.2.1 127.0.0.1\r\n" + request, 0},
		"no end of line":         {"127.0.0.1", "PROXY TCP4 192.0.2.1 127.0.0.1 5000 80 " + strings.Repeat("x", 200), 0},
		"no address":             {"127.0.0.1", "PROXY TCP4 192.0.2.300 127.0.0.1 5000 80\r\n" + request, 0},
		"a socket":               {"127.0.0.1", "\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\xd8" + strings.Repeat("\x00", 216) + request, 0},
		"a datagram":             {"127.0.0.1", "\r\n\r\n\x00\r\nQUIT\n\x21\x12\x00\x0c\xc0\x00\x02\x01\x7f\x00\x00\x01\x00\x50\x00\x50" + request, 0},
		"two headers":            {"127.0.0.1", header + "PROXY TCP4 192.0.2.9 127.0.0.1 5000 80\r\n" + request, 400},
		"two, the other version": {"127.0.0.1", header + version2(t, "192.0.2.9:1") + request, 400},
		"from a client":          {"127.0.0.2", header + request, 400},
		"from a client, v2":      {"127.0.0.2", version2(t, "192.0.2.1:5000") + request, 400},
		"a client without it":    {"127.0.0.3", request, 200},
	} {
		if got := answerTo(t, fromPeer(t, r, x.from), x.send); got != x.want {
			t.Errorf("%s is answered %d, want %d", name, got, x.want)
		}
	}
	if got := r.figure("sluice_proxy_protocol_failures_total"); got != "6" {
		t.Errorf("%s headers are counted as bad", got)
	}
	// The attempts above took nothing from the client that they name.
	for i, want := range []int{200, 200, 429} {
		if got := answerTo(t, fromPeer(t, r, "127.0.0.1"), header+request); got != want {
			t.Errorf("request %d is answered %d, want %d", i, got, want)
		}
	}
}

// A balancer's connection ends if its header does not come. The connections of a client are bounded.
func TestSlowAndManyProxiedConnections(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, behindBalancer), nil)
	silent := fromPeer(t, r, "127.0.0.1")
	if _, err := io.WriteString(silent, "PROXY TCP4 192."); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a cut header is answered")
	}
	var held []net.Conn
	for range 2 {
		c := fromPeer(t, r, "127.0.0.1")
		fmt.Fprint(c, "PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // the connection stays open
		held = append(held, c)
	}
	third := func() int {
		return answerTo(t, fromPeer(t, r, "127.0.0.1"), "PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\n"+request)
	}
	if got := third(); got != 0 {
		t.Errorf("a third connection of the client is answered %d", got)
	}
	if got := answerTo(t, fromPeer(t, r, "127.0.0.1"), "PROXY TCP4 192.0.2.8 127.0.0.1 5000 80\r\n"+request); got != 200 {
		t.Errorf("another client is answered %d", got)
	}
	_ = held[0].Close()
	eventually(t, "another connection of the client", func() bool { return third() != 0 })
}
