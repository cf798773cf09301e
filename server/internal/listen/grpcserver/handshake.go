package grpcserver

import (
	"net"

	"google.golang.org/grpc/credentials"
)

// reportingCredentials report the handshakes that fail.
type reportingCredentials struct {
	credentials.TransportCredentials
	server *Server
}

// ServerHandshake makes the handshake of a client's connection.
func (c *reportingCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil && c.server.handshakeFailed != nil {
		c.server.handshakeFailed(err)
	}
	return conn, info, err
}

// Clone returns a copy.
func (c *reportingCredentials) Clone() credentials.TransportCredentials {
	return &reportingCredentials{c.TransportCredentials.Clone(), c.server}
}

// OnHandshakeError makes the server report the TLS handshakes that fail. It is called before Serve.
func (s *Server) OnHandshakeError(report func(error)) { s.handshakeFailed = report }
