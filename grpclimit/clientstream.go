package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/sluicehq/sluice/policy"
)

// clientStream is a stream whose messages are limited.
type clientStream struct {
	grpc.ClientStream
	ending
	ctx    context.Context //nolint:containedctx // ends the stream
	client *Client
	call   *Call
}

// SendMsg sends a message when its limits let it pass.
func (s *clientStream) SendMsg(m any) error {
	if err := s.denied(); err != nil {
		return err
	}
	if err := s.charge(s.client.sent, m); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg receives a message, and returns it when its limits let it pass.
func (s *clientStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		if denied := s.denied(); denied != nil {
			return denied // the stream was ended because of it
		}
		return err
	}
	return s.charge(s.client.received, m)
}

func (s *clientStream) charge(limit *side, m any) error {
	if limit == nil {
		return nil
	}
	c := &Call{Method: s.call.Method, Target: s.call.Target, Message: m, ctx: s.ctx, outgoing: true}
	a, err := s.client.admit(limit, c)
	if err != nil {
		s.end(err)
		return err
	}
	a.Leave(callContext{s.ctx, c}, policy.Outcome{})
	return nil
}
