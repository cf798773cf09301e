// Package proxy passes requests on to one upstream, and its answers back. Both pass as
// they are, including streams, upgrades, trailers and interim answers. The proxy adds the
// identity of the client (X-Forwarded-*), and time limits towards both sides. If the
// upstream gives no answer, the proxy gives one of its own. It limits no rate; the
// middleware around it does.
package proxy
