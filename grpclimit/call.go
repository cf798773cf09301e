package grpclimit

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Call is a call that is decided about, or a message of a stream. Functions of a program read it, and
// must not change or keep it.
// It belongs to one call, and is not safe for concurrent use.
type Call struct {
	// Method is the full method, such as "/shop.v1.Orders/Create".
	Method string
	// Message is the request of a unary call, or the message of a stream that is decided about. It is
	// nil when a stream begins.
	Message any
	// Target is the target of the client's connection, such as "dns:///shop.example.com". It is empty on
	// a server.
	Target string

	ctx      context.Context //nolint:containedctx // functions get one argument
	decider  *Decider
	outgoing bool
}

// Context returns the context of the call.
func (c *Call) Context() context.Context { return c.ctx }

// Metadata returns all values of a metadata key: on a server the values that the client sent, on a
// client the values that it is about to send. Values of keys that end in "-bin" are decoded.
func (c *Call) Metadata(key string) []string {
	key = strings.ToLower(key)
	if !c.outgoing {
		return metadata.ValueFromIncomingContext(c.ctx, key)
	}
	sent, _ := metadata.FromOutgoingContext(c.ctx)
	return sent[key]
}

// Authority returns the host that the call is for, as the client sent it. It is empty on a client.
func (c *Call) Authority() string {
	if c.outgoing {
		return ""
	}
	lines := metadata.ValueFromIncomingContext(c.ctx, ":authority")
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// Peer returns the address of the peer of a server's connection. It is invalid on a client, and for
// peers without an address, such as the peers of a Unix domain socket.
func (c *Call) Peer() netip.Addr {
	if c.outgoing {
		return netip.Addr{}
	}
	p, ok := peer.FromContext(c.ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	if _, unix := p.Addr.(*net.UnixAddr); unix {
		return netip.Addr{} // a client can bind its end to a name that reads as an address
	}
	at, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// service returns the service of a full method, "shop.v1.Orders".
func service(method string) string {
	method = strings.TrimPrefix(method, "/")
	return method[:max(0, strings.LastIndexByte(method, '/'))]
}
