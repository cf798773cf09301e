package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// serverStream is a stream for a handler. Its messages are limited, and its metadata is recorded.
type serverStream struct {
	grpc.ServerStream
	ending
	ctx    context.Context //nolint:containedctx // handlers get it from the stream
	server *Server
	call   *Call
	record *recorder
}

// newServerStream returns the stream of an admitted call. The caller must end it.
func newServerStream(stream grpc.ServerStream, s *Server, c *Call, p pass) *serverStream {
	l := &serverStream{ServerStream: stream, server: s, call: c, record: p.record}
	l.ctx, l.cancel = context.WithCancelCause(p.ctx)
	return l
}

// Context returns the context of the handler. It ends when a message is denied.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message, and returns it when its limits let it pass.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.denied(); err != nil {
		return err
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.charge(s.server.received, m)
}

// SendMsg sends a message when its limits let it pass.
func (s *serverStream) SendMsg(m any) error {
	if err := s.denied(); err != nil {
		return err
	}
	if err := s.charge(s.server.sent, m); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

func (s *serverStream) charge(limit *side, m any) error {
	if limit == nil {
		return nil
	}
	err := limit.message(s.ctx, s.call, m)
	if err != nil {
		s.end(err)
	}
	return err
}

// SetHeader records the metadata of a handler.
func (s *serverStream) SetHeader(md metadata.MD) error {
	s.recorded(md)
	return s.ServerStream.SetHeader(md)
}

// SendHeader records the metadata of a handler.
func (s *serverStream) SendHeader(md metadata.MD) error {
	s.recorded(md)
	return s.ServerStream.SendHeader(md)
}

// SetTrailer records the metadata of a handler.
func (s *serverStream) SetTrailer(md metadata.MD) {
	s.recorded(md)
	s.ServerStream.SetTrailer(md)
}

func (s *serverStream) recorded(md metadata.MD) {
	if s.record != nil {
		s.record.record(md)
	}
}
