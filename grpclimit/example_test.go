package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// noon is a stopped clock, so that examples always print the same.
func noon() int64 { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro() }

// transport connects examples without TLS.
var transport = grpc.WithTransportCredentials(insecure.NewCredentials())

// start lets a server serve its health on loopback, and returns the address.
func start(server *grpc.Server) (target string) {
	healthpb.RegisterHealthServer(server, health.NewServer())
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.Serve(l) }()
	return l.Addr().String()
}

// check calls a server, with metadata to send.
func check(target string, pairs ...string) error {
	conn := must(grpc.NewClient(target, transport))
	defer conn.Close()
	_, err := healthpb.NewHealthClient(conn).Check(metadata.AppendToOutgoingContext(context.Background(), pairs...), &healthpb.HealthCheckRequest{})
	return err
}

// One line limits each client address.
func ExamplePerClient() {
	limit, err := grpclimit.PerClient("2/h")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(limit...)

	target := start(server)
	defer server.Stop()
	for range 3 {
		fmt.Println(status.Code(check(target)))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

// The calls of a client keep a rate. They wait for their turn.
func ExampleAtRate() {
	server := grpc.NewServer()
	target := start(server)

	limit, err := grpclimit.AtRate("50/s")
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(target, append(limit, transport)...)
	if err != nil {
		log.Fatal(err)
	}

	began := time.Now()
	for range 52 { // of which 50 are a burst
		if _, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(began) >= 39*time.Millisecond)
	_ = conn.Close()
	server.Stop()
	// Output: true
}

// Each API key may make two calls a minute of each method.
func Example() {
	store, err := memory.New(memory.Options{Clock: noon})
	if err != nil {
		log.Fatal(err)
	}
	decider, err := grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store:  store,
		Limits: []*sluice.Limit{sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(2)})},
		Key:    []policy.Part{grpclimit.Metadata("x-api-key").IfMissing(policy.MissingDeny), grpclimit.Method()},
	})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := grpclimit.NewServer(decider, grpclimit.ServerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(limiter.Options()...)

	target := start(server)
	defer server.Stop()

	for range 3 {
		err = check(target, "x-api-key", "a")
		fmt.Println(status.Code(err))
	}
	wait, _ := grpclimit.RetryDelay(err)
	fmt.Println("retry after", wait)
	fmt.Println(status.Code(check(target, "x-api-key", "b")))
	fmt.Println(status.Code(check(target)))
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// retry after 30s
	// OK
	// InvalidArgument
}

// Rules choose which limits apply to which methods.
func ExampleNewPolicyDecider() {
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name:   "health",
		Match:  policy.Match{Paths: []string{"/grpc.health.v1.Health/*"}},
		Key:    []policy.Part{policy.Header("x-tenant")},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1)})},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	decider, err := grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{Policy: rules, Store: must(memory.New(memory.Options{}))})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := grpclimit.NewServer(decider, grpclimit.ServerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(limiter.Options()...)
	target := start(server)
	defer server.Stop()
	for _, tenant := range []string{"a", "a", "b"} {
		fmt.Println(tenant, status.Code(check(target, "x-tenant", tenant)))
	}
	// Output:
	// a OK
	// a ResourceExhausted
	// b OK
}

// A rule that gRPC cannot express is an error that names it.
func ExampleNewServer() {
	rules := must(policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "uploads", Key: []policy.Part{policy.ClientIP()}, Bandwidth: &policy.Bandwidth{Up: sluice.PerSecond(500_000)},
	}}}))
	decider := must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{Policy: rules, Store: must(memory.New(memory.Options{}))}))
	_, err := grpclimit.NewServer(decider, grpclimit.ServerOptions{})
	fmt.Println(err)
	// Output: grpclimit: NewServer: rule "uploads": Bandwidth paces bytes of bodies, and calls have messages; leave it out; ServerOptions.Received and Sent limit messages
}

// At most ten streams of a client are open at once, and it sends at most a hundred messages a second.
// Faster messages wait, so flow control slows the client down.
func ExampleServerOptions_received() {
	store := must(memory.New(memory.Options{}))
	client := []policy.Part{policy.ClientIP()}
	streams := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: store, Key: client, Limits: []*sluice.Limit{sluice.MustLimit("streams", sluice.Concurrency{Max: 10})},
	}))
	messages := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: store, Key: client, Limits: []*sluice.Limit{sluice.MustLimit("messages", sluice.TokenBucket{Rate: sluice.PerSecond(100)})},
		MaxWait: 5 * time.Second,
	}))
	limiter, err := grpclimit.NewServer(streams, grpclimit.ServerOptions{Received: messages})
	fmt.Println(limiter != nil, err)
	// Output: true <nil>
}

// A part can be anything of a call: here the name in the client's certificate.
func ExampleFunction() {
	name := grpclimit.Function("certificate", func(c *grpclimit.Call) (string, bool) {
		p, ok := peer.FromContext(c.Context())
		if !ok {
			return "", false
		}
		tls, ok := p.AuthInfo.(credentials.TLSInfo)
		if !ok || len(tls.State.VerifiedChains) == 0 {
			return "", false
		}
		return tls.State.VerifiedChains[0][0].Subject.CommonName, true
	}).IfMissing(policy.MissingDeny)
	decider := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Key: []policy.Part{name},
		Limits: []*sluice.Limit{sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerSecond(5)})},
	}))
	server := grpc.NewServer(must(grpclimit.NewServer(decider, grpclimit.ServerOptions{})).Options()...)
	target := start(server)
	defer server.Stop()
	fmt.Println(check(target))
	// Output: rpc error: code = InvalidArgument desc = the call lacks certificate
}

// Behind proxies, the client is the last address that is not a trusted proxy.
func ExampleKeyOptions_clientIP() {
	ip := must(httplimit.NewClientIP(httplimit.ClientIPOptions{
		TrustedProxies: must(httplimit.ParseProxies("10.0.0.0/8", "127.0.0.1")),
	}))
	decider := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), ClientIP: ip, Key: []policy.Part{policy.ClientIP().IfMissing(policy.MissingDeny)},
		Limits: []*sluice.Limit{sluice.MustLimit("api", sluice.FixedWindow{Rate: sluice.PerDay(1)})},
	}))
	server := grpc.NewServer(must(grpclimit.NewServer(decider, grpclimit.ServerOptions{})).Options()...)
	target := start(server)
	defer server.Stop()
	for _, hops := range []string{"203.0.113.1", "6.6.6.6, 203.0.113.1, 10.0.0.7", "203.0.113.2"} {
		fmt.Println(hops, status.Code(check(target, "x-forwarded-for", hops)))
	}
	// Output:
	// 203.0.113.1 OK
	// 6.6.6.6, 203.0.113.1, 10.0.0.7 ResourceExhausted
	// 203.0.113.2 OK
}

// A program can add to the status of a denial.
func ExampleStatus() {
	decider := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Key: []policy.Part{policy.ClientIP()},
		Limits: []*sluice.Limit{sluice.MustLimit("api", sluice.FixedWindow{Rate: sluice.PerDay(1)})},
	}))
	limiter := must(grpclimit.NewServer(decider, grpclimit.ServerOptions{
		OnDenied: func(c *grpclimit.Call, v *policy.Verdict) error {
			s, err := grpclimit.Status(c, v).WithDetails(&errdetails.Help{Links: []*errdetails.Help_Link{{Url: "https://example.com/limits"}}})
			if err != nil {
				return err
			}
			return s.Err()
		},
	}))
	server := grpc.NewServer(limiter.Options()...)
	target := start(server)
	defer server.Stop()

	_ = check(target)
	for _, detail := range status.Convert(check(target)).Details() {
		fmt.Printf("%T\n", detail)
	}
	// Output:
	// *errdetails.RetryInfo
	// *errdetails.QuotaFailure
	// *errdetails.Help
}

// Only failures use up the limit.
func ExampleServerOptions_counts() {
	decider := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Key: []policy.Part{policy.ClientIP()},
		Limits: []*sluice.Limit{sluice.MustLimit("failures", sluice.SlidingLog{Rate: sluice.PerHour(1)})},
	}))
	limiter := must(grpclimit.NewServer(decider, grpclimit.ServerOptions{
		Counts: func(code codes.Code) bool { return code == codes.NotFound },
	}))
	server := grpc.NewServer(limiter.Options()...)
	target := start(server)
	defer server.Stop()
	conn := must(grpc.NewClient(target, transport))
	defer conn.Close()
	for _, service := range []string{"", "", "unknown", ""} {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{Service: service})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// NotFound
	// ResourceExhausted
}
