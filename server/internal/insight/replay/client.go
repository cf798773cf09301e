package replay

import (
	"hash/maphash"
	"net/netip"
	"strings"
	"time"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// identity finds what distinguishes clients.
type identity struct {
	name   logs.Name
	kind   policy.Source // of a named value; 0 for the address
	direct bool          // the log has the address of the client itself
	prefix int
}

// newIdentity returns the identity by a name, or by the address.
func newIdentity(o *Options, l *logs.Layout) identity {
	c := identity{name: o.Client, prefix: o.Policy.IPv6Prefix}
	for kind, text := range sources {
		if text == o.Client.Source {
			c.kind = kind
		}
	}
	trusts := len(o.Policy.Trusted) > 0 || o.Policy.TrustUnix
	c.direct = !trusts || l.Index("header", "X-Forwarded-For") < 0
	return c
}

// String returns the identity as part of a key.
func (c *identity) String() string {
	if c.kind == 0 {
		return source.ClientIP.String()
	}
	return c.name.Source + ":" + c.name.Name
}

// of returns the client of the current request of an engine. It is empty if the log does not have it.
func (c *identity) of(e *engine, rec *logs.Record) string {
	if c.kind != 0 {
		a := httplimit.Attributes(&e.request.Request, nil)
		return a.Read(c.kind, c.name.Name).First
	}
	if c.direct && strings.IndexByte(rec.Client, ':') < 0 {
		return rec.Client
	}
	e.request.RemoteAddr = rec.Client
	addr, ok := e.ip.Addr(&e.request.Request)
	if !ok {
		return rec.Client
	}
	return network(addr, c.prefix)
}

// network returns an address, or the network of an IPv6 address.
func network(addr netip.Addr, prefix int) string {
	if addr = addr.Unmap(); addr.Is4() || prefix == 0 || prefix == 128 {
		return addr.String()
	}
	return netip.PrefixFrom(addr, prefix).Masked().String()
}

// isNetwork reports whether the name of a client is an address or a network.
func isNetwork(name string) bool {
	_, noAddr := netip.ParseAddr(name)
	_, noPrefix := netip.ParsePrefix(name)
	return noAddr == nil || noPrefix == nil
}

// client counts the requests of a client.
type client struct {
	requests, limited uint32
	before            bool // a request was limited by the policy before, or in the log
	near, sure        bool // with more exact times it would perhaps have been limited; it is limited with any
	listed            *limitedClient
}

// repeats finds the requests that repeat a limited one. It keeps the requests of the last minute or two.
type repeats struct {
	now, past map[uint64]int64
	since     int64
}

// within is how soon a request of the same client for the same target repeats a limited one.
const within = int64(time.Minute / time.Microsecond)

func (r *repeats) has(rec *logs.Record, limited bool) bool {
	if r.now == nil || rec.At-r.since > within {
		r.past, r.now, r.since = r.now, map[uint64]int64{}, rec.At
	}
	key := maphash.String(seed, strings.Join([]string{rec.Client, rec.Method, rec.Host, rec.Target}, "\x00"))
	at, ok := r.now[key]
	if !ok {
		at, ok = r.past[key]
	}
	repeated := ok && rec.At-at <= within
	if limited {
		r.now[key] = rec.At
	} else if ok {
		delete(r.now, key)
		delete(r.past, key)
	}
	return repeated
}
