// Package grpcserver is the gRPC server that the services of a listener share. It has what does not depend on a service:
// health checks, reflection, TLS, tokens, bounds, and draining. It decides nothing.
package grpcserver
