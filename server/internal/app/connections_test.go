package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestConnectionsOfAClientAreBounded opens more connections than one client may have. Other clients, and the
// connections of trusted proxies, are not affected.
func TestConnectionsOfAClientAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"http: {max_connections_per_client: 3}\ntrusted_proxies: [127.0.0.3]\nupstream: "+behind(t, hello)+roomy), nil)
	_, address, _ := strings.Cut(r.URL(Proxy), "://")
	connect := func(from string) (net.Conn, bool) {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
		c, err := d.DialContext(t.Context(), "tcp", address)
		if errors.Is(err, syscall.ECONNRESET) {
			return nil, false // already
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		n, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200")))
		return c, err == nil && n > 0
	}
	var first net.Conn
	for from, most := range map[string]int{"127.0.0.1": 3, "127.0.0.2": 3, "127.0.0.3": 5} {
		for i := range 5 {
			c, ok := connect(from)
			if ok != (i < most) {
				t.Errorf("connection %d of %s is served: %t", i, from, ok)
			}
			if from == "127.0.0.1" && i == 0 {
				first = c
			}
		}
	}
	first.Close()
	eventually(t, "a free connection", func() bool { _, ok := connect("127.0.0.1"); return ok })
	// A client of the admin listener has its own three.
	tr := &http.Transport{DisableKeepAlives: true}
	r.client = &http.Client{Transport: tr}
	if got, err := strconv.Atoi(r.figure("sluice_refused_connections_total")); err != nil || got < 4 {
		t.Errorf("%d refused connections are counted", got)
	}
}
