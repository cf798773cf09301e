package overdoors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

const (
	rlsDoor = "rls"
	// batch is the number of descriptors in a large call.
	batch = 100
	// addresses are the keys that are limited. They are few enough to be hot keys of hybrid limits.
	addresses = 100
	// channels is the number of connections, as a gateway has one for each of its threads.
	channels = 4
)

// rlsKinds are the servers that are compared.
var rlsKinds = []struct{ name, server string }{
	{"grpc-go, the same messages", echoServer},
	{"sluice, memory", memoryServer},
	{"sluice, Redis", redisServer},
	{"sluice, hybrid", hybridServer},
	{"envoyproxy/ratelimit, Redis", peerServer},
}

// rlsName returns the name of a row.
func rlsName(kind string, descriptors int) string {
	if descriptors == 1 {
		return kind
	}
	return fmt.Sprintf("%s, %d descriptors", kind, descriptors)
}

// rlsRows are the rows of the rate limit service.
func rlsRows(peer bool) []row {
	var all []row
	for _, n := range []int{1, batch} {
		for _, k := range rlsKinds {
			if k.server == peerServer && !peer {
				continue
			}
			all = append(all, row{rlsDoor, rlsName(k.name, n), k.server, nil, n, func(address string) (load, error) { return newRLSLoad(address, n) }})
		}
	}
	return all
}

// rlsLoad makes calls with bytes that are made beforehand, so that the callers take as little of the machine as can be.
type rlsLoad struct {
	conns    []*grpc.ClientConn
	requests [][]byte
}

func newRLSLoad(address string, descriptors int) (load, error) {
	l := &rlsLoad{}
	for range channels {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{})))
		if err != nil {
			return nil, err
		}
		l.conns = append(l.conns, conn)
	}
	for first := 0; first < addresses; first += descriptors {
		b, err := proto.Marshal(rlsRequest(first, descriptors))
		if err != nil {
			return nil, err
		}
		l.requests = append(l.requests, b)
	}
	return l, nil
}

// rlsRequest is a call about addresses, from the first one on.
func rlsRequest(first, descriptors int) *ratelimitpb.RateLimitRequest {
	q := &ratelimitpb.RateLimitRequest{Domain: "bench"}
	for i := range descriptors {
		q.Descriptors = append(q.Descriptors, &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{
			{Key: "remote_address", Value: fmt.Sprintf("192.0.%d.%d", (first+i)/250, (first+i)%250)},
		}})
	}
	return q
}

var errNotAllowed = errors.New("the server did not allow the call")

// caller returns the function of one caller.
func (l *rlsLoad) caller(i int) func() error {
	conn, next := l.conns[i%len(l.conns)], i*7919
	return func() error {
		next++
		var allowed bytesAnswer
		if err := conn.Invoke(context.Background(), ratelimitpb.RateLimitService_ShouldRateLimit_FullMethodName, l.requests[next%len(l.requests)], &allowed); err != nil {
			return err
		}
		if !allowed {
			return errNotAllowed
		}
		return nil
	}
}

func (l *rlsLoad) close() {
	for _, conn := range l.conns {
		_ = conn.Close() // nothing is under way
	}
}

// bytesCodec sends bytes as they are, and reads only whether an answer allows the call.
type bytesCodec struct{}

// bytesAnswer says whether the call is allowed.
type bytesAnswer bool

// Name returns the name of the codec that the server uses.
func (bytesCodec) Name() string { return "proto" }

// Marshal returns the bytes of a call.
func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal reads the first field of an answer, which is the overall code.
func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	var begin [2]byte
	n, err := data.Reader().Read(begin[:])
	if err != nil || n < 2 {
		return errors.Join(errNotAllowed, err)
	}
	*v.(*bytesAnswer) = begin[0] == 1<<3 && begin[1] == byte(ratelimitpb.RateLimitResponse_OK)
	return nil
}

// saveAnswers writes what a server answers into a folder, for the floor.
func saveAnswers(address, folder string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, n := range []int{1, batch} {
		answer, err := ratelimitpb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, rlsRequest(0, n))
		if err != nil {
			return err
		}
		b, err := proto.Marshal(answer)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.bin", n)), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// judgeRLS compares the results with the bars of the rate limit service.
func judgeRLS(r figures.Results) []figures.Bar {
	const echo, memory, redis, hybrid, peer = 0, 1, 2, 3, 4
	name := func(kind, n int) string { return rlsName(rlsKinds[kind].name, n) }
	return []figures.Bar{
		atLeast(r, name(memory, 1), 0.85, name(echo, 1)),
		atLeast(r, name(memory, batch), 0.4, name(echo, batch)),
		atLeast(r, name(memory, 1), 2, name(peer, 1)),
		atLeast(r, name(memory, batch), 3, name(peer, batch)),
		atLeast(r, name(redis, 1), 1.5, name(peer, 1)),
		atLeast(r, name(hybrid, 1), 0.8, name(memory, 1)),
	}
}
