// Package protocols tests the server with programs that speak protocols other than HTTP: clients of Redis in several
// languages, HAProxy, and gateways that call as Envoy does. Each test starts a server of its own, by its configuration.
package protocols
