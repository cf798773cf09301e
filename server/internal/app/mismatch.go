package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sluicehq/sluice/policyfile"
)

// mismatchPatience is how long a server may take to show whether it speaks TLS.
const mismatchPatience = time.Second

// diagnose looks into an error of the first connection. A server that is spoken to with TLS, and
// speaks without, stays silent, or one with TLS hangs up on who speaks without: neither says what
// is wrong, so it is asked in the other way.
func (r *redis) diagnose(ctx context.Context, err error) error {
	var dial *net.OpError
	var noTLS tls.RecordHeaderError
	address, _ := r.dialed.Load().(string)
	switch {
	case address == "" || r.file.Socket != "" || ctx.Err() != nil,
		replied(err) != "",                         // it was understood
		errors.As(err, &dial) && dial.Op == "dial", // nobody is there
		hopeless(err) && !errors.As(err, &noTLS):   // it is known what is wrong
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mismatchPatience)
	defer cancel()
	problem := ""
	if r.file.TLS != (policyfile.RedisTLS{}) {
		if speaksPlain(ctx, address) {
			problem = "%s speaks without TLS there, and store.redis.tls asks for it; give the port where it speaks TLS, or remove tls"
		}
	} else if speaksTLS(ctx, address) {
		problem = "%s speaks TLS there, and store.redis.tls is not set; set tls: true, or tls: {ca: FILE} for an authority of your own, or give the port where it speaks without"
	}
	if problem == "" {
		return err
	}
	return &misfitError{fmt.Errorf("store.redis: "+problem+": %w", address, err)}
}

// speaksPlain reports whether a server answers a command that comes without TLS.
func speaksPlain(ctx context.Context, address string) bool {
	first := firstByte(ctx, address, func(conn net.Conn) error {
		_, err := conn.Write([]byte("PING\r\n"))
		return err
	})
	return first == '+' || first == '-' // PONG, or that it asks for a password first
}

// speaksTLS reports whether a server answers who begins to speak TLS. Whether it is to be trusted
// is not asked: nothing is told to it.
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

// firstByte returns what a server says first to who speaks so; 0 for nothing.
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
		_, _ = heard.Read(make([]byte, 1)) // nothing is 0
	}
	return heard.first
}

// listening is a connection that remembers the first byte that came over it.
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
