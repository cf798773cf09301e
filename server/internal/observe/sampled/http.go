package sampled

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"strings"
	"time"
)

// httpLog is what package net/http logs, much of it because of what clients send: a few lines a second, each
// short. A panic is the program's own, and has its stack.
type httpLog struct {
	logger  *slog.Logger
	sampler *Sampler
	// handshake reports failed handshakes; nil if nothing else does.
	handshake func(error)
}

// OnHandshakeError makes l report the handshakes that fail.
func (l *httpLog) OnHandshakeError(report func(error)) { l.handshake = report }

// mostStack bounds the stack of a panic.
const mostStack = 4 << 10

// HTTP returns a log for package net/http, its servers and its clients, with a bound of its own, so that one listener
// does not hide what another one logs.
func HTTP(logger *slog.Logger) *log.Logger {
	return log.New(&httpLog{logger: logger, sampler: NewSampler(PerSecond)}, "", 0)
}

func (l *httpLog) Write(line []byte) (int, error) {
	ctx, level := context.Background(), slog.LevelDebug
	first, stack, _ := bytes.Cut(line, []byte("\n"))
	if err, ok := handshakeError(first); ok && l.handshake != nil {
		l.handshake(err)
		return len(line), nil
	}
	panicked := bytes.HasPrefix(first, []byte("http: panic serving")) || bytes.HasPrefix(first, []byte("http2: panic serving"))
	if panicked {
		level = slog.LevelError
	}
	if !l.logger.Enabled(ctx, level) {
		return len(line), nil
	}
	hidden, ok := l.sampler.Take(time.Now())
	if !ok {
		return len(line), nil
	}
	var attrs []slog.Attr
	if panicked {
		attrs = append(attrs, slog.String("stack", strings.ToValidUTF8(string(stack[:min(len(stack), mostStack)]), "?")))
	}
	if hidden > 0 {
		attrs = append(attrs, slog.Int("not_logged", hidden))
	}
	l.logger.LogAttrs(ctx, level, Brief(string(first[:min(len(first), mostStack)])), attrs...)
	return len(line), nil
}

// handshakePrefix is how package net/http begins the line of a failed handshake. The client's address follows.
var handshakePrefix = []byte("http: TLS handshake error from ")

// handshakeError returns the error of a line of package net/http about a failed handshake.
func handshakeError(line []byte) (err error, ok bool) { //nolint:revive // the error is a value here
	rest, ok := bytes.CutPrefix(line, handshakePrefix)
	if !ok {
		return nil, false
	}
	_, text, _ := bytes.Cut(rest, []byte(": "))
	if string(text) == io.EOF.Error() {
		return io.EOF, true
	}
	return errors.New(string(text)), true
}
