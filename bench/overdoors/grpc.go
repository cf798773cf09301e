package overdoors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/load"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

const (
	grpcDoor = "grpc"
	// batch is the number of descriptors in a large call.
	batch = 100
	// addresses are the keys that are limited. They are few enough to be hot keys of hybrid limits.
	addresses = 100
	// channels is the number of connections, as a gateway has one for each of its threads.
	channels = 4
)

// rlsKinds are the servers of the rate limit service that are compared.
var rlsKinds = []struct {
	name, server string
	floor, store bool
}{
	{"grpc-go, the same messages", echoServer, true, false},
	{"rate limit service, memory", memoryServer, false, false},
	{"rate limit service, Redis", redisServer, false, true},
	{"rate limit service, hybrid", hybridServer, false, true},
	{"envoyproxy/ratelimit, Redis", peerServer, false, true},
}

// rlsName returns the name of a row.
func rlsName(kind string, descriptors int) string {
	if descriptors == 1 {
		return kind
	}
	return fmt.Sprintf("%s, %d descriptors", kind, descriptors)
}

// grpcRows are the rows of what Envoy calls.
func grpcRows(peer bool) []row {
	var all []row
	for _, n := range []int{1, batch} {
		for _, k := range rlsKinds {
			if k.server != peerServer || peer {
				all = append(all, row{
					door: grpcDoor, name: rlsName(k.name, n), server: k.server, units: n, floor: k.floor, store: k.store,
					connect: func(address string) (load.Client, error) { return newRLS(address, n) },
				})
			}
		}
	}
	return append(
		all,
		row{door: grpcDoor, name: "grpc-go, the messages of ext_authz", server: echoServer, units: 1, floor: true, connect: newAuthz},
		row{door: grpcDoor, name: "ext_authz", server: authzServer, units: 1, connect: newAuthz},
	)
}

// grpcCalls makes calls with bytes that are made beforehand, so that the callers take as little of the machine as can be.
type grpcCalls struct {
	conns    []*grpc.ClientConn
	method   string
	requests [][]byte
	allowed  answer
}

func newGRPC(address, method string, allowed answer, requests ...proto.Message) (_ load.Client, err error) {
	c := &grpcCalls{method: method, allowed: allowed}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for range channels {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{})))
		if err != nil {
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	for _, q := range requests {
		b, err := proto.Marshal(q)
		if err != nil {
			return nil, err
		}
		c.requests = append(c.requests, b)
	}
	return c, nil
}

// newRLS calls the rate limit service about all addresses.
func newRLS(address string, descriptors int) (load.Client, error) {
	var all []proto.Message
	for first := 0; first < addresses; first += descriptors {
		all = append(all, rlsRequest(first, descriptors))
	}
	// The first field is the overall code.
	return newGRPC(address, ratelimitpb.RateLimitService_ShouldRateLimit_FullMethodName, answer{1 << 3, byte(ratelimitpb.RateLimitResponse_OK)}, all...)
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

// newAuthz calls the external authorization.
func newAuthz(address string) (load.Client, error) {
	// The first field is the status, which is empty for OK.
	return newGRPC(address, authpb.Authorization_Check_FullMethodName, answer{1<<3 | 2, 0}, authzRequest())
}

// authzRequest is what Envoy reports of a request, with encode_raw_headers.
func authzRequest() *authpb.CheckRequest {
	h := &authpb.AttributeContext_HttpRequest{
		Id: "5298427153624681472", Method: "GET", Path: "/api/x", Host: "www.example.com", Scheme: "http", Protocol: "HTTP/1.1", Size: -1, HeaderMap: &corepb.HeaderMap{},
	}
	for _, pair := range [][2]string{
		{":authority", h.Host},
		{":path", h.Path},
		{":method", h.Method},
		{":scheme", h.Scheme},
		{"x-forwarded-for", "192.0.2.1"},
		{"x-forwarded-proto", "http"},
		{"x-request-id", "7f6c0e4b-3b1f-9a55-8d0e-5f1c6f3e2a10"},
	} {
		h.HeaderMap.Headers = append(h.HeaderMap.Headers, &corepb.HeaderValue{Key: pair[0], RawValue: []byte(pair[1])})
	}
	return &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{
			SocketAddress: &corepb.SocketAddress{Address: "192.0.2.1", PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 4711}},
		}}},
		Request: &authpb.AttributeContext_Request{Http: h},
	}}
}

var errNotAllowed = errors.New("the server did not allow the call")

// Caller returns the function of one caller.
func (c *grpcCalls) Caller(i int) (call func() error) {
	conn, next := c.conns[i%len(c.conns)], i*7919
	return func() error {
		next++
		var got answer
		if err := conn.Invoke(context.Background(), c.method, c.requests[next%len(c.requests)], &got); err != nil {
			return err
		}
		if got != c.allowed {
			return errNotAllowed
		}
		return nil
	}
}

// Close closes the connections.
func (c *grpcCalls) Close() {
	for _, conn := range c.conns {
		_ = conn.Close() // nothing is under way
	}
}

// answer is the beginning of an answer, which says whether the call is allowed.
type answer [2]byte

// bytesCodec sends bytes as they are, and reads only the beginning of an answer.
type bytesCodec struct{}

// Name returns the name of the codec that the server uses.
func (bytesCodec) Name() string { return "proto" }

// Marshal returns the bytes of a call.
func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal reads the beginning of an answer.
func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	n, err := data.Reader().Read(v.(*answer)[:])
	if err != nil || n < len(answer{}) {
		return errors.Join(errNotAllowed, err)
	}
	return nil
}

// saveAnswers writes what the servers of both services answer into a folder, for the floor.
func saveAnswers(limits, authz, folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	save := func(address, name string, call func(*grpc.ClientConn) (proto.Message, error)) error {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		m, err := call(conn)
		if err != nil {
			return err
		}
		b, err := proto.Marshal(m)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, name+".bin"), b, 0o600)
	}
	err := save(authz, "check", func(c *grpc.ClientConn) (proto.Message, error) {
		return authpb.NewAuthorizationClient(c).Check(ctx, authzRequest())
	})
	for _, n := range []int{1, batch} {
		err = errors.Join(err, save(limits, fmt.Sprint(n), func(c *grpc.ClientConn) (proto.Message, error) {
			return ratelimitpb.NewRateLimitServiceClient(c).ShouldRateLimit(ctx, rlsRequest(0, n))
		}))
	}
	return err
}

// judgeGRPC compares the results with the bars of the rate limit service.
func judgeGRPC(r figures.Results) []figures.Bar {
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
