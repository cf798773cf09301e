package grpcserver

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Message is a message that reads and writes its own bytes. The server uses package proto for all other messages.
type Message interface {
	// UnmarshalWire reads the message. It must not keep the bytes.
	UnmarshalWire(b []byte) error
	// AppendWire appends the bytes of the message. The server calls it once for each answer, and does not use the
	// message afterwards.
	AppendWire(b []byte) []byte
	// SizeWire returns about how many bytes AppendWire appends.
	SizeWire() int
}

// codec is the protobuf codec of gRPC, except for a Message.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal returns the bytes of a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := m.SizeWire()
	if mem.IsBelowBufferPoolingThreshold(size) {
		return mem.BufferSlice{mem.SliceBuffer(m.AppendWire(make([]byte, 0, size)))}, nil
	}
	pool := mem.DefaultBufferPool()
	b := pool.Get(size)
	*b = m.AppendWire((*b)[:0])
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return m.UnmarshalWire(b.ReadOnlyData())
}
