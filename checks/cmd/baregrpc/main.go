// Command baregrpc is the floor of the benchmark of the gRPC doors: a grpc-go server that decodes a RateLimitRequest and
// encodes a RateLimitResponse with the generated code, and decides nothing. The answers are files, by the number of
// descriptors: 1.bin, 100.bin.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// echo answers calls with the answer for their number of descriptors.
type echo struct {
	ratelimitpb.UnimplementedRateLimitServiceServer
	answers map[int]*ratelimitpb.RateLimitResponse
}

// ShouldRateLimit answers a call.
func (e *echo) ShouldRateLimit(_ context.Context, q *ratelimitpb.RateLimitRequest) (*ratelimitpb.RateLimitResponse, error) {
	if answer := e.answers[len(q.GetDescriptors())]; answer != nil {
		return answer, nil
	}
	return nil, status.Error(codes.NotFound, "no answer for so many descriptors")
}

// load reads the answers of a folder.
func (e *echo) load(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.bin"))
	if err != nil || len(files) == 0 {
		return errors.Join(errors.New("no answers"), err)
	}
	e.answers = map[int]*ratelimitpb.RateLimitResponse{}
	for _, file := range files {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(file), ".bin"))
		if err != nil {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		e.answers[n] = &ratelimitpb.RateLimitResponse{}
		if err := proto.Unmarshal(b, e.answers[n]); err != nil {
			return err
		}
	}
	return nil
}

func run(address, dir string) error {
	e := &echo{}
	if err := e.load(dir); err != nil {
		return err
	}
	l, err := net.Listen("tcp", address) //nolint:noctx // it lasts as long as the process
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	ratelimitpb.RegisterRateLimitServiceServer(s, e)
	return s.Serve(l)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: baregrpc HOST:PORT FOLDER")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, run(os.Args[1], os.Args[2]))
	os.Exit(1)
}
