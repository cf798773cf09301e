// Package proxy passes requests on to one upstream and its answers back, as they
// are: streams, upgrades, trailers and interim answers included. What it adds is who the
// client is (X-Forwarded-*), time limits towards both sides, and an answer of
// its own when the upstream gives none. It limits no rate: the middleware around it does.
package proxy
