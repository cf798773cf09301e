package app

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"strings"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/proxy"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// publishFailures publishes the metrics of requests that the upstream did not answer.
func (a *App) publishFailures() {
	var upstream, client []string
	for _, f := range proxy.Failures {
		if f.Client() {
			client = append(client, f.String())
		} else {
			upstream = append(upstream, f.String())
		}
	}
	a.metrics.SetFailures(upstream, client)
	a.metrics.Gauge("sluice_abandoned_requests", "Requests whose clients have left, and whose answers are awaited because a limit depends on them.",
		func() float64 { return float64(a.abandoned.Count()) })
}

// failed counts a request that the upstream did not answer.
func (a *App) failed(f proxy.Failure) {
	if f.Client() {
		a.metrics.ClientFailed(f.String())
	} else {
		a.metrics.UpstreamFailed(f.String())
	}
}

// sampleFailure takes a few failures a second for the log. What clients do wrong hides no failure of the upstream.
func (a *App) sampleFailure(f proxy.Failure) (hidden int, ok bool) {
	if f.Client() {
		return a.clientLog.Take(time.Now())
	}
	return a.upstreamLog.Take(time.Now())
}

// mostAbandoned returns how many requests may wait for the upstream although their clients have left: at most half
// of its connections.
func mostAbandoned(connections int) int {
	const most = 256
	switch connections {
	case 0:
		return most
	case 1:
		return -1
	default:
		return min(most, connections/2)
	}
}

// errorLog is what package net/http logs, much of it because of what clients send: a few lines a second, each
// short. A panic is the program's own, and has its stack.
type errorLog struct {
	logger  *slog.Logger
	sampler *telemetry.Sampler
	// handshake reports failed handshakes; nil if nothing else does.
	handshake func(error)
}

// OnHandshakeError makes l report the handshakes that fail.
func (l *errorLog) OnHandshakeError(report func(error)) { l.handshake = report }

// mostStack bounds the stack of a panic.
const mostStack = 4 << 10

// newErrorLog returns a log for package net/http, with a bound of its own, so that one listener does not hide what another one logs.
func newErrorLog(logger *slog.Logger) *log.Logger {
	return log.New(&errorLog{logger: logger, sampler: telemetry.NewSampler(errorsPerSecond)}, "", 0)
}

// ErrorLog returns the same for the log of package log, to which clients of package net/http write.
func ErrorLog(logger *slog.Logger) io.Writer { return newErrorLog(logger).Writer() }

func (l *errorLog) Write(line []byte) (int, error) {
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
	l.logger.LogAttrs(ctx, level, proxy.Brief(string(first[:min(len(first), mostStack)])), attrs...)
	return len(line), nil
}
