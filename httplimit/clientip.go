package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
	"sync/atomic"

	"github.com/sluicehq/sluice/policy"
)

// Headers in which proxies name the client, for ClientIPOptions.Header.
const (
	// XForwardedFor is a list to which each proxy adds the address of its peer.
	XForwardedFor = "X-Forwarded-For"
	// Forwarded is the standardized form of such a list, RFC 7239.
	Forwarded = "Forwarded"
	// XRealIP holds one address, which the proxy sets.
	XRealIP = "X-Real-Ip"
)

// ClientIPOptions are the settings of a ClientIP. The zero ClientIPOptions believe
// no header: the client is the peer.
type ClientIPOptions struct {
	// TrustedProxies are the addresses of the proxies in front of the service. A header is believed
	// only as far as trusted proxies wrote it; see ParseProxies. Default: none, so headers are ignored.
	TrustedProxies []netip.Prefix
	// TrustUnix trusts peers without an address, which connect through a Unix domain socket: their RemoteAddr is
	// empty, "@", "unix:" as nginx writes it, or a path. A client can bind its end of such a connection to a name
	// that reads as an address, such as 10.0.0.1:80. If clients that you do not trust reach the socket, the
	// listener must give its connections another RemoteAddr. Default: they are not trusted, and have no address.
	TrustUnix bool
	// Header is the one header that the trusted proxies write; all others are ignored, because clients
	// can send them. XForwardedFor and Forwarded are lists, read from their end. Any other name, such
	// as XRealIP or "CF-Connecting-IP", holds one address. Default: XForwardedFor.
	Header string
	// MaxHops is how many proxies a request passes at most. The address that the last of them wrote is
	// the client, even if it is a trusted proxy. MaxHops bounds the work of reading a list. From 1 to
	// 64. Default: 16.
	MaxHops int
	// IPv6Prefix is how many bits of an IPv6 address make the key of a client, 1 to
	// 128. Default: 64, which is what one customer usually holds.
	IPv6Prefix int
}

const (
	defaultHops   = 16
	mostHops      = 64
	defaultPrefix = 64
)

// ClientIP finds the address of a request's client: going from the peer backwards, the first address
// that is not a trusted proxy. IPv4 addresses that are mapped to IPv6 become IPv4 addresses, and zones
// are removed.
//
// It finds no address if a trusted proxy wrote something that is not an address. If a trusted proxy
// sent no header, the client is the proxy. A nil *ClientIP takes the peer. It is safe for concurrent
// use.
type ClientIP struct {
	proxies atomic.Pointer[proxies]
	header  string
	hops    int
	bounded bool // the number of hops was given
	prefix  int
}

// proxies are the peers that a ClientIP believes. A request takes them once. A nil *proxies believes nobody.
type proxies struct {
	trusted []netip.Prefix
	unix    bool
}

// NewClientIP returns a finder of client addresses.
// The error names the option, and what to give.
func NewClientIP(o ClientIPOptions) (*ClientIP, error) {
	c := &ClientIP{header: textproto.CanonicalMIMEHeaderKey(o.Header), hops: o.MaxHops, bounded: o.MaxHops > 0, prefix: o.IPv6Prefix}
	if c.header == "" {
		c.header = XForwardedFor
	}
	if strings.ContainsAny(c.header, " :,\t\r\n") {
		return nil, fmt.Errorf("httplimit: ClientIPOptions.Header is %q, which is not the name of a header", o.Header)
	}
	if c.hops == 0 {
		c.hops = defaultHops
	}
	if c.hops < 1 || c.hops > mostHops {
		return nil, fmt.Errorf("httplimit: ClientIPOptions.MaxHops is %d; give 1 to %d, or 0 for the default", o.MaxHops, mostHops)
	}
	if c.prefix == 0 {
		c.prefix = defaultPrefix
	}
	if c.prefix < 1 || c.prefix > 128 {
		return nil, fmt.Errorf("httplimit: ClientIPOptions.IPv6Prefix is %d; give 1 to 128, or 0 for the default", o.IPv6Prefix)
	}
	if err := c.SetTrusted(o.TrustedProxies, o.TrustUnix); err != nil {
		return nil, err
	}
	return c, nil
}

// SetTrusted replaces TrustedProxies and TrustUnix, such as when a content delivery network has new addresses. The error
// names the range that is none; nothing has changed then. Both may apply to a request that is decided meanwhile.
func (c *ClientIP) SetTrusted(networks []netip.Prefix, unix bool) error {
	now := &proxies{unix: unix}
	for _, p := range networks {
		p, err := checkProxy(p)
		if err != nil {
			return err
		}
		if p.Bits() == 0 && !c.bounded {
			return fmt.Errorf("httplimit: trusted proxy %v believes everybody, so that clients choose their address; set MaxHops to the number of proxies", p)
		}
		now.trusted = append(now.trusted, p)
	}
	c.proxies.Store(now)
	return nil
}

// believed returns the peers that are believed now.
func (c *ClientIP) believed() *proxies {
	if c == nil {
		return nil
	}
	return c.proxies.Load()
}

// Addr returns the address of the client, and whether there is one.
func (c *ClientIP) Addr(r *http.Request) (netip.Addr, bool) {
	a, _ := c.find(r)
	return a, a.IsValid()
}

// AddrOf returns the address of the client of a request of another protocol than net/http's. peer is
// the address of the peer, invalid for a Unix domain socket. lines returns all lines of a header.
func (c *ClientIP) AddrOf(peer netip.Addr, lines func(header string) []string) (netip.Addr, bool) {
	peer = peer.Unmap().WithZone("")
	p := c.believed()
	if !p.believes(peer, "") {
		return peer, peer.IsValid()
	}
	a, _ := c.listed(p, peer, "", lines(c.header))
	return a, a.IsValid()
}

// IPv6Prefix returns how many bits of an IPv6 address make the key of a client.
func (c *ClientIP) IPv6Prefix() int {
	if c == nil {
		return defaultPrefix
	}
	return c.prefix
}

// Trusts reports whether a peer with an address is one of the trusted proxies. A peer at a Unix socket has an invalid
// address.
func (c *ClientIP) Trusts(peer netip.Addr) bool { return c.believed().believes(peer, "") }

// TrustsPeer reports whether a request comes from one of the trusted proxies itself, for PolicyOptions.TrustMarks.
func (c *ClientIP) TrustsPeer(r *http.Request) bool {
	addr, _ := parseNode(r.RemoteAddr)
	return c.believed().believes(addr, r.RemoteAddr)
}

// part returns the function that finds the part of a key that is the client's address.
func (c *ClientIP) part(p *policy.Part) func(*http.Request) (string, bool) {
	if p.IPv6Prefix == 0 {
		p.IPv6Prefix = c.IPv6Prefix()
	}
	prefix := p.IPv6Prefix
	return func(r *http.Request) (string, bool) {
		a, text := c.find(r)
		switch {
		case !a.IsValid():
			return "", false
		case text != "":
			return text, true
		case a.Is4():
			return a.String(), true
		}
		return prefixText(a, prefix), true
	}
}

// prefixText returns an IPv6 prefix in its canonical spelling; a whole address is written without a
// length.
func prefixText(a netip.Addr, bits int) string {
	p, err := a.Prefix(bits)
	if err != nil || bits == 128 {
		return a.String()
	}
	var space [48]byte
	return string(p.AppendTo(space[:0]))
}

// find returns the address, and its text if the text is part of the request and the only spelling.
func (c *ClientIP) find(r *http.Request) (netip.Addr, string) {
	addr, text := parseNode(r.RemoteAddr)
	p := c.believed()
	if !p.believes(addr, r.RemoteAddr) {
		return addr, text
	}
	return c.listed(p, addr, text, r.Header[c.header])
}

// believes reports whether the header of a peer is read. remote is the text of the peer's address.
func (p *proxies) believes(peer netip.Addr, remote string) bool {
	switch {
	case p == nil:
		return false
	case peer.IsValid():
		return p.trusts(peer)
	}
	return p.unix && isUnix(remote)
}

// isUnix reports whether a text is what programs have for the address of a peer at a Unix domain socket. Other texts
// are not addresses of any peer.
func isUnix(remote string) bool {
	return remote == "" || remote[0] == '@' || remote[0] == '/' || remote == "unix:"
}

// listed returns the address in the lines that a peer sent whom p believes, and its text as find does. addr and
// text are the peer's.
func (c *ClientIP) listed(p *proxies, addr netip.Addr, text string, lines []string) (netip.Addr, string) {
	if len(lines) == 0 {
		return addr, text // the proxy's own request
	}
	if c.header != XForwardedFor && c.header != Forwarded {
		if len(lines) > 1 {
			return netip.Addr{}, ""
		}
		return parseNode(strings.Trim(lines[0], " \t"))
	}
	list := chain{lines: lines, quoted: c.header == Forwarded}
	for range c.hops {
		element, ok := list.last()
		if !ok {
			return addr, text // all of them are proxies
		}
		if list.quoted {
			element, ok = forwardedFor(element)
		} else {
			element, ok = unquoteNode(element), true
		}
		if !ok {
			return netip.Addr{}, ""
		}
		addr, text = parseNode(element)
		if !addr.IsValid() || !p.trusts(addr) {
			return addr, text
		}
	}
	return addr, text
}

// trusts reports whether a valid address belongs to a trusted proxy.
func (p *proxies) trusts(a netip.Addr) bool {
	for _, network := range p.trusted {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// ParseProxies reads addresses ("192.0.2.1") and ranges ("10.0.0.0/8") of trusted proxies. The error
// names all faulty texts.
func ParseProxies(texts ...string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	var errs []error
	for _, text := range texts {
		p, err := parseProxy(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, errors.Join(errs...)
}

func parseProxy(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("httplimit: trusted proxy %q is not an address; write it as 192.0.2.1, 2001:db8::1 or 10.0.0.0/8", text)
		}
		return checkProxy(netip.PrefixFrom(a, a.BitLen()))
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("httplimit: trusted proxy %q is not a range of addresses; write it as 10.0.0.0/8 or 2001:db8::/32", text)
	}
	return checkProxy(p)
}

// checkProxy returns the range; a range of IPv4 addresses mapped to IPv6 becomes a range of IPv4. A
// mapped range with a prefix of less than 96 bits would contain all IPv4 addresses, and more.
func checkProxy(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, errors.New("httplimit: a trusted proxy is the zero netip.Prefix; read it with ParseProxies")
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("httplimit: trusted proxy %v holds all IPv4 addresses; write a range of IPv4 as 10.0.0.0/8", p)
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	if m := p.Masked(); m != p {
		return p, fmt.Errorf("httplimit: trusted proxy %v has bits set beyond its length; write %v, or %v for the one address", p, m, p.Addr())
	}
	return p, nil
}
