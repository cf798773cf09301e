// Command baregrpc is the floor of the benchmark of the gRPC doors: a grpc-go server that decodes the calls of Envoy and
// encodes the answers with the generated code, and decides nothing. The answers are files: check.bin of external
// authorization, and of the rate limit service by the number of descriptors, 1.bin and 100.bin.
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

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// echo answers calls with the answer of a file.
type echo struct {
	ratelimitpb.UnimplementedRateLimitServiceServer
	authpb.UnimplementedAuthorizationServer
	answers map[int]*ratelimitpb.RateLimitResponse
	checked authpb.CheckResponse
}

// Check answers a call of external authorization.
func (e *echo) Check(context.Context, *authpb.CheckRequest) (*authpb.CheckResponse, error) {
	return &e.checked, nil
}

// ShouldRateLimit answers a call of the rate limit service.
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
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var into proto.Message = &e.checked
		if name := strings.TrimSuffix(filepath.Base(file), ".bin"); name != "check" {
			n, err := strconv.Atoi(name)
			if err != nil {
				return err
			}
			e.answers[n] = &ratelimitpb.RateLimitResponse{}
			into = e.answers[n]
		}
		if err := proto.Unmarshal(b, into); err != nil {
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
	authpb.RegisterAuthorizationServer(s, e)
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
