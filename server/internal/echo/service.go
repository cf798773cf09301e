package echo

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Service answers within the process, without a port. Make it with Start, and end it with Close.
type Service struct {
	http  http.Server
	pipe  *pipeListener
	ended chan struct{}
}

// Start starts the service.
func Start(logger *slog.Logger) *Service {
	s := &Service{http: http.Server{Handler: Handler{}, ReadHeaderTimeout: time.Minute}, pipe: newPipeListener(), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(s.pipe); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			logger.Error("the built-in service ended", "error", err)
		}
	}()
	return s
}

// Dial makes a connection, whatever the address.
func (s *Service) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.pipe.Dial(ctx, network, address)
}

// Close ends the service.
func (s *Service) Close() {
	_, _ = s.http.Close(), s.pipe.Close() // only the proxy uses it
	<-s.ended
}
