package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// mismatchPatience is how long a server may take to show whether it speaks TLS.
const mismatchPatience = time.Second

// diagnose explains an error of the first connection. A server without TLS is silent when a client
// begins TLS, and a server with TLS closes the connection of a client without TLS. Neither error
// names the cause, so diagnose tries the other way.
func (r *Store) diagnose(ctx context.Context, err error) error {
	var dial *net.OpError
	var noTLS tls.RecordHeaderError
	address, _ := r.dialed.Load().(string)
	switch {
	case address == "" || r.file.Socket != "" || ctx.Err() != nil,
		replied(err) != "",                         // the server understood the client
		errors.As(err, &dial) && dial.Op == "dial", // nothing listens there
		hopeless(err) && !errors.As(err, &noTLS):   // the error names its cause
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mismatchPatience)
	defer cancel()
	problem := ""
	switch overTLS := r.file.TLS != (TLS{}); {
	case speaksHTTP(ctx, address):
		problem = "%s speaks HTTP, so it is not a Redis server; give the port of Redis, which is usually 6379"
	case overTLS && speaksPlain(ctx, address):
		problem = "%s does not speak TLS there, but store.redis.tls is set; give the port where it speaks TLS, or remove tls"
	case !overTLS && speaksTLS(ctx, address):
		problem = "%s speaks TLS there, but store.redis.tls is not set; set tls: true, or tls: {ca: FILE} for your own authority, or give the port without TLS"
	}
	if problem == "" {
		return err
	}
	return &misfitError{fmt.Errorf("store.redis: "+problem+": %w", address, err)}
}

// speaksPlain reports whether a server answers a command without TLS.
func speaksPlain(ctx context.Context, address string) bool {
	first := firstByte(ctx, address, func(conn net.Conn) error {
		_, err := conn.Write([]byte("PING\r\n"))
		return err
	})
	return first == '+' || first == '-' // PONG, or the error that a password is missing
}

// speaksHTTP reports whether a server answers in HTTP.
func speaksHTTP(ctx context.Context, address string) bool {
	return firstByte(ctx, address, func(conn net.Conn) error {
		// For Redis, this is a command with too many arguments.
		_, err := conn.Write([]byte("PING / HTTP/1.0\r\n\r\n"))
		return err
	}) == 'H'
}

// speaksTLS reports whether a server answers the beginning of TLS. It does not verify the server, because it
// sends nothing secret.
func speaksTLS(ctx context.Context, address string) bool {
	const handshake = 0x16
	return firstByte(ctx, address, func(conn net.Conn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		_ = tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
		return nil
	}) == handshake
}

// firstByte returns the first byte of a server's answer; 0 for none.
func firstByte(ctx context.Context, address string, speak func(net.Conn) error) byte {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	heard := &listening{Conn: conn}
	if err := speak(heard); err != nil {
		return 0
	}
	if heard.first == 0 {
		_, _ = heard.Read(make([]byte, 1)) // 0 without an answer
	}
	return heard.first
}

// listening is a connection that keeps the first byte that it reads.
type listening struct {
	net.Conn
	first byte
}

// Read reads from the connection.
func (l *listening) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 && l.first == 0 {
		l.first = p[0]
	}
	return n, err
}
