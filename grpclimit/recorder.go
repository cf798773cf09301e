package grpclimit

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/sluicehq/sluice/policy"
)

// statusHeader is the code of a result, for gate.Options.Counts. It is what gRPC sends.
const statusHeader = "Grpc-Status"

// outcomeOf returns the outcome of a call with a code.
func outcomeOf(code codes.Code) policy.Outcome {
	return policy.Outcome{Status: httpStatus(code), Header: func(name string) (string, bool) {
		if name != statusHeader {
			return "", false
		}
		return strconv.FormatUint(uint64(code), 10), true
	}}
}

// recorder records the metadata that a handler sends, because costs can be in it.
type recorder struct {
	grpc.ServerTransportStream

	mu   sync.Mutex
	sent metadata.MD
}

// recording returns a recorder, and the context for a handler whose metadata it records.
func recording(ctx context.Context) (*recorder, context.Context) {
	r := &recorder{ServerTransportStream: grpc.ServerTransportStreamFromContext(ctx), sent: metadata.MD{}}
	if r.ServerTransportStream == nil {
		return r, ctx // the interceptor is called by a test
	}
	return r, grpc.NewContextWithServerTransportStream(ctx, r)
}

// record keeps metadata.
func (r *recorder) record(md metadata.MD) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, lines := range md {
		key = strings.ToLower(key)
		r.sent[key] = append(r.sent[key], lines...)
	}
}

// SetHeader is for grpc.SetHeader.
func (r *recorder) SetHeader(md metadata.MD) error {
	r.record(md)
	return r.ServerTransportStream.SetHeader(md)
}

// SendHeader is for grpc.SendHeader.
func (r *recorder) SendHeader(md metadata.MD) error {
	r.record(md)
	return r.ServerTransportStream.SendHeader(md)
}

// SetTrailer is for grpc.SetTrailer.
func (r *recorder) SetTrailer(md metadata.MD) error {
	r.record(md)
	return r.ServerTransportStream.SetTrailer(md)
}

// fill lets an outcome find what was recorded. A nil recorder has nothing.
func (r *recorder) fill(o *policy.Outcome) {
	if r == nil {
		return
	}
	code := o.Header
	o.Header = func(name string) (string, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if lines := r.sent[strings.ToLower(name)]; len(lines) > 0 {
			return lines[len(lines)-1], true
		}
		return code(name)
	}
}
