// Package grpcserver is the gRPC server that the services of a listener share. It provides the parts that all services
// need: health checks, reflection, TLS, tokens, bounds, and draining. It decides nothing.
package grpcserver
