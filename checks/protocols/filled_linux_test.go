package protocols

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// filled has every listener, and a rule for everything that a client can fill.
const filled = `listen: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0', auth: '127.0.0.1:0', grpc: '127.0.0.1:0', json: '127.0.0.1:0', resp: '127.0.0.1:0', spoe: '127.0.0.1:0'}
trusted_proxies: 127.0.0.1
store: {memory: {max_size: 16MiB}}
log: {level: error}
upstream: echo
domains: [edge]
rules:
  - {name: user, match: {path: /user}, key: '{header:X-User}/{query:q}/{cookie:c}/{host}/{client_ip}', limit: {algorithm: token_bucket, rate: 1/d}, ban: {after: 1, for: 1h}}
  - {name: log, match: {path: /log}, key: 'header:X-User', limit: {algorithm: sliding_log, rate: 20/d}}
  - {name: wait, match: {path: /wait}, key: 'header:X-User', limit: {algorithm: leaky_bucket, rate: 1/s, queue: 3}, max_wait: 1s}
  - {name: lease, match: {path: /lease}, key: 'header:X-User', limit: {algorithm: concurrency, max: 5, ttl: 1h}}
  - {name: paced, match: {path: /paced}, key: 'header:X-User', limit: {algorithm: token_bucket, rate: 100/s}, bandwidth: {down: 1MB/s, up: 1MB/s}}
  - {name: described, descriptor: {domain: edge, entries: [user]}, limit: {algorithm: token_bucket, rate: 1/d, burst: 1}}
`

// promisedMemory is what docs/failure-modes.md promises of a server with max_size: 16MiB: a quarter more than the
// states and 48 MiB, and twice what the other tables hold, because the collector lets them double. Beside rates of
// descriptors, numbers of CL.THROTTLE, reservations and answers, there is room for the connections of the callers here.
const promisedMemory = 16<<20/4*5 + 48<<20 + 2*(32<<20+32<<20+64<<20+(64+64)<<20+32<<20)

// TestClientsFillWhatIsDocumented calls at every listener with invented keys, limits, numbers, names and reservations,
// for two seconds, and for ten minutes in a soak. The process stays within the sum of the documented bounds.
func TestClientsFillWhatIsDocumented(t *testing.T) {
	if os.Getenv("GOGC")+os.Getenv("GOMEMLIMIT") != "" {
		t.Fatal("unset GOGC and GOMEMLIMIT: they replace what this test measures")
	}
	lasts := 2 * time.Second
	if redistest.Times(t, 3) > 3 {
		lasts = 10 * time.Minute
	}
	f := &filler{s: serveFile(t, writeConfig(t, filled), 8), client: &http.Client{Timeout: process.Patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	defer f.client.CloseIdleConnections()
	conn, err := grpc.NewClient(f.s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f.limits, f.auth = ratelimitpb.NewRateLimitServiceClient(conn), authpb.NewAuthorizationClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	doors := map[string]func(context.Context, *rand.Rand) error{
		"proxy": f.proxy, "api": f.api, "reserve": f.reserve, "auth": f.forward, "json": f.json, "grpc": f.rates, "ext_authz": f.checks, "resp": f.throttle, "spoe": f.haproxy,
	}
	var calls sync.Map
	var calling sync.WaitGroup
	for name, call := range doors {
		n := new(atomic.Int64)
		calls.Store(name, n)
		for i := range 2 {
			calling.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(len(name)+i)))
				for ctx.Err() == nil {
					if err := call(ctx, rng); err != nil {
						// A connection attempt ends at the deadline, some time before the context does.
						if ends, _ := ctx.Deadline(); time.Now().Before(ends) {
							t.Errorf("%s: a call failed: %v", name, err)
						}
						return
					}
					n.Add(1)
				}
			})
		}
	}
	calling.Wait()
	for name := range doors {
		n, _ := calls.Load(name)
		if got := n.(*atomic.Int64).Load(); got < 20 {
			t.Errorf("only %d calls at %s", got, name)
		} else {
			t.Logf("%s: %d calls", name, got)
		}
	}
	peak := memoryOf(t, f.s.PID(), "VmHWM")
	t.Logf("the process has taken %d MiB, of %d MiB", peak>>20, int64(promisedMemory)>>20)
	if peak > promisedMemory {
		t.Errorf("the process has taken %d bytes, and the documented sum is %d", peak, int64(promisedMemory))
	}
	if text := f.s.Log(); strings.Contains(text, "panic") {
		t.Errorf("the log has a panic:\n%.3000s", text)
	}
}

// memoryOf returns a figure of a process in bytes, as the kernel counts it.
func memoryOf(t *testing.T, pid int, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	n, err := strconv.ParseInt(strings.Fields(rest + " none")[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// filler calls a server with what it has never sent before.
type filler struct {
	s      *process.Sluice
	client *http.Client
	limits ratelimitpb.RateLimitServiceClient
	auth   authpb.AuthorizationClient
}

// made returns a text that was never sent before, sometimes a long one.
func made(rng *rand.Rand) string {
	text := strconv.FormatUint(rng.Uint64(), 36)
	if rng.IntN(50) == 0 {
		text += strings.Repeat("x", rng.IntN(4000))
	}
	return text
}

func anyOf(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

// paths are the paths of the rules.
var paths = []string{"/user", "/log", "/wait", "/lease", "/paced"}

// do sends a request, and takes any answer.
func (f *filler) do(ctx context.Context, rng *rand.Rand, listener, method, path, body string, header ...string) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+f.s.Address(listener)+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if listener == "api" && rng.IntN(2) == 0 {
		r.Header.Set("Idempotency-Key", strconv.FormatUint(rng.Uint64(), 36))
	}
	res, err := f.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil {
		return fmt.Errorf("%s %.30s with %d: %d after %d bytes: %w", method, path, len(body), res.StatusCode, n, err)
	}
	return nil
}

// clientOf returns an address that only this call has.
func clientOf(rng *rand.Rand) string {
	return fmt.Sprintf("2001:db8:%x:%x::1", rng.IntN(1<<16), rng.IntN(1<<16))
}

func (f *filler) proxy(ctx context.Context, rng *rand.Rand) error {
	return f.do(ctx, rng, "proxy", anyOf(rng, "GET", "POST", "BREW"+strconv.Itoa(rng.IntN(1e6))), anyOf(rng, paths...)+"?q="+made(rng), made(rng),
		"X-User", made(rng), "Cookie", "c="+made(rng), "X-Forwarded-For", clientOf(rng), "Authorization", "Bearer "+made(rng))
}

func (f *filler) question(rng *rand.Rand) string {
	return fmt.Sprintf(`{"path": %q, "method": "GET", "host": "h%d.example", "client_ip": %q, "headers": {"X-User": %q}, "query": {"q": %q}}`, anyOf(rng, paths...), rng.IntN(1e9), clientOf(rng), made(rng), made(rng))
}

func (f *filler) api(ctx context.Context, rng *rand.Rand) error {
	if rng.IntN(20) > 0 {
		return f.do(ctx, rng, "api", "POST", anyOf(rng, "/v1/check", "/v1/peek"), f.question(rng))
	}
	all := make([]string, rng.IntN(100)+1)
	for i := range all {
		all[i] = f.question(rng)
	}
	return f.do(ctx, rng, "api", "POST", "/v1/check", `{"requests": [`+strings.Join(all, ",")+`]}`)
}

func (f *filler) reserve(ctx context.Context, rng *rand.Rand) error {
	return f.do(ctx, rng, "api", "POST", anyOf(rng, "/v1/reserve", "/v1/acquire"), f.question(rng))
}

func (f *filler) forward(ctx context.Context, rng *rand.Rand) error {
	return f.do(ctx, rng, "auth", "GET", "/auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", anyOf(rng, paths...)+"?q="+made(rng), "X-Forwarded-Host", made(rng)[:8]+".example",
		"X-Forwarded-Proto", "http", "X-Forwarded-For", clientOf(rng), "X-User", made(rng))
}

func (f *filler) json(ctx context.Context, rng *rand.Rand) error {
	return f.do(ctx, rng, "json", "POST", "/json", fmt.Sprintf(`{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": %q}], "limit": {"requestsPerUnit": %d, "unit": %q}}]}`,
		made(rng), 1+rng.Uint32N(1<<31), anyOf(rng, "SECOND", "MINUTE", "HOUR", "DAY")))
}

func (f *filler) rates(ctx context.Context, rng *rand.Rand) error {
	_, _ = f.limits.ShouldRateLimit(ctx, &ratelimitpb.RateLimitRequest{Domain: anyOf(rng, "edge", "edge", made(rng)), Descriptors: []*commonpb.RateLimitDescriptor{{
		Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: anyOf(rng, "user", "user", made(rng)), Value: made(rng)}},
		Limit:   &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1 + rng.Uint32N(1<<31), Unit: typepb.RateLimitUnit(1 + rng.IntN(4))},
	}}}) // it may be refused
	return nil
}

func (f *filler) checks(ctx context.Context, rng *rand.Rand) error {
	source := &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{Address: clientOf(rng)}}}}
	_, _ = f.auth.Check(ctx, &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source:  source,
		Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{Method: "GET", Path: anyOf(rng, paths...) + "?q=" + made(rng), Host: "h.example", Headers: map[string]string{"x-user": made(rng)}}},
	}}) // it may be refused
	return nil
}

// throttle sends commands with new numbers, and a queue that it leaves.
func (f *filler) throttle(ctx context.Context, rng *rand.Rand) error {
	var b bytes.Buffer
	command := func(words ...string) {
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	if rng.IntN(20) == 0 {
		command("MULTI")
	}
	for range 100 {
		command("CL.THROTTLE", made(rng), strconv.Itoa(rng.IntN(1e6)), strconv.Itoa(1+rng.IntN(1e6)), strconv.Itoa(1+rng.IntN(1e8)), "1")
	}
	return f.converse(ctx, "resp", b.Bytes())
}

// spoeText appends a text as HAProxy writes it.
func spoeText(b []byte, s string) []byte {
	n := uint64(len(s))
	if n < 240 {
		b = append(b, byte(n))
	} else {
		b = append(b, byte(n)|240)
		for n = (n - 240) >> 4; n >= 128; n = (n - 128) >> 7 {
			b = append(b, byte(n)|128)
		}
		b = append(b, byte(n))
	}
	return append(b, s...)
}

// spoeValue appends a name, and a text as its value.
func spoeValue(b []byte, name, s string) []byte {
	return spoeText(append(spoeText(b, name), 8), s)
}

func spoeFrame(kind, stream byte, payload []byte) []byte {
	b := append([]byte{kind, 0, 0, 0, 1, stream, stream}, payload...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// spoeHello is the first frame of HAProxy, with the largest size of frames.
func spoeHello() []byte {
	size := append(append(spoeText(nil, "max-frame-size"), 3), 240, 241, 254, 0)
	return spoeFrame(1, 0, spoeValue(spoeValue(size, "supported-versions", "2.0"), "capabilities", "pipelining"))
}

// spoeMessage is the frame of a request.
func spoeMessage(target, headers string) []byte {
	message := append(spoeText(nil, "request"), 4)
	message = spoeValue(spoeValue(message, "method", "GET"), "target", target)
	return spoeFrame(3, 1, spoeValue(spoeValue(message, "src", "2001:db8::1"), "headers", headers))
}

// haproxy says hello, and sends messages, some of which cannot be read.
func (f *filler) haproxy(ctx context.Context, rng *rand.Rand) error {
	out := spoeHello()
	for range 50 {
		frame := spoeMessage(anyOf(rng, paths...)+"?q="+made(rng), "host: h.example\r\nx-user: "+made(rng)+"\r\n\r\n")
		if rng.IntN(10) == 0 {
			frame[11+rng.IntN(len(frame)-11)] ^= byte(1 + rng.IntN(255))
		}
		out = append(out, frame...)
	}
	return f.converse(ctx, "spoe", out)
}

// converse sends bytes on a connection of its own, and reads what comes back for a moment.
func (f *filler) converse(ctx context.Context, listener string, out []byte) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", f.s.Address(listener))
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(process.Patience))
	_, _ = c.Write(out) // the server may have ended the connection
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, _ = io.Copy(io.Discard, c)
	return nil
}
