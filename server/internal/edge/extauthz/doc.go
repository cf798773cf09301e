// Package extauthz is the edge for Envoy's external authorization over gRPC. Envoy reports each request before it
// passes the request on, and gets an answer, or changes of the headers. The rules decide as they do at the proxy.
package extauthz
