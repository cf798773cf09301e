package protocols

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/program"
	"github.com/sluicehq/sluice/checks/redistest"
)

// original builds envoyproxy/ratelimit, and returns its path. Go's build cache keeps it for the next time.
func original(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "ratelimit")
	if err := program.BuildModule(path, "../ratelimit"); err != nil {
		tb.Fatal(err)
	}
	return path
}

// startOriginal runs envoyproxy/ratelimit with the files of a runtime folder, and further variables.
func startOriginal(tb testing.TB, path, runtime, redis string, variables ...string) *envoy {
	tb.Helper()
	free, err := redistest.FreePorts(3)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), append([]string{
		"HOST=127.0.0.1", "PORT=" + free[0], "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + free[1], "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + free[2],
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
		"RUNTIME_ROOT=" + runtime, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
	}, variables...)...)
	p := process.Start(tb, cmd)
	address := net.JoinHostPort("127.0.0.1", free[1])
	if err := p.Accepts(address); err != nil {
		tb.Fatal(err)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &envoy{tb, conn, ratelimitpb.NewRateLimitServiceClient(conn)}
}

// startInPlace runs sluice with the files of a runtime folder. Without the address of a Redis it counts in its memory.
func startInPlace(tb testing.TB, runtime, redis string, variables ...string) *envoy {
	tb.Helper()
	cmd := exec.Command(process.Program(), "serve", "--listen-json", "off", "--listen-grpc", "127.0.0.1:0", "--listen-admin", "off")
	cmd.Env = append(os.Environ(), append([]string{"RUNTIME_ROOT=" + runtime, "RUNTIME_SUBDIRECTORY=ratelimit", "USE_STATSD=false", "REDIS_TIMEOUT=10s"}, variables...)...)
	if redis != "" {
		cmd.Env = append(cmd.Env, "REDIS_URL="+redis)
	}
	return dialEnvoy(tb, process.StartSluice(tb, cmd, 1))
}

// writeRuntime writes a configuration of Envoy's rate limit service into a new runtime folder.
func writeRuntime(tb testing.TB, text string) (runtime string) {
	tb.Helper()
	runtime = tb.TempDir()
	folder := filepath.Join(runtime, "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return runtime
}

// envoyTree is a configuration at random, and what a caller needs to make calls.
type envoyTree struct {
	text   string
	quotas map[string]bool // the keys of quotas
	never  map[string]bool // the keys of limits of 0
}

// levels are the keys of a tree's first level.
const levels = 8

// randomTree returns a configuration with limits that a few calls exceed.
func randomTree(rng *rand.Rand) *envoyTree {
	t := &envoyTree{quotas: map[string]bool{}, never: map[string]bool{}}
	var b strings.Builder
	b.WriteString("domain: edge\ndescriptors:\n")
	names := []string{"", "first", "second", "third"}
	for i := range levels {
		key := fmt.Sprint("k", i)
		limit := fmt.Sprintf("unit: day, requests_per_unit: %d", 1+rng.IntN(30))
		switch rng.IntN(10) {
		case 0:
			limit = "unlimited: true"
		case 1:
			limit, t.never[key] = "unit: hour, requests_per_unit: 0", true
		}
		if name := names[rng.IntN(len(names))]; name != "" {
			limit += ", name: " + name
		}
		if other := names[rng.IntN(len(names))]; other != "" && rng.IntN(4) == 0 && !strings.Contains(limit, other) {
			limit += ", replaces: [{name: " + other + "}]"
		}
		fmt.Fprintf(&b, "  - key: %s\n    rate_limit: {%s}\n", key, limit)
		if rng.IntN(5) == 0 {
			b.WriteString("    shadow_mode: true\n")
		}
		if !strings.HasPrefix(limit, "unlimited") && rng.IntN(3) == 0 {
			b.WriteString("    quota_mode: true\n")
			t.quotas[key] = true
		}
		if rng.IntN(2) == 0 {
			fmt.Fprintf(&b, "    descriptors:\n      - key: inner\n        rate_limit: {unit: year, requests_per_unit: %d}\n", 1+rng.IntN(9))
		}
		if rng.IntN(3) == 0 {
			fmt.Fprintf(&b, "  - key: %s\n    value: shared*\n    share_threshold: true\n    rate_limit: {unit: week, requests_per_unit: %d}\n", key, 1+rng.IntN(30))
		}
	}
	t.text = b.String()
	return t
}

// randomCall returns a call about descriptors of the tree, and about some that no limit has.
func (t *envoyTree) randomCall(rng *rand.Rand) *ratelimitpb.RateLimitRequest {
	q := call()
	if rng.IntN(3) == 0 {
		q.HitsAddend = rng.Uint32N(6)
	}
	seen := map[string]bool{}
	for range 1 + rng.IntN(4) {
		key, value := fmt.Sprint("k", rng.IntN(levels+1)), []string{"a", "b", "shared1", "shared2"}[rng.IntN(4)]
		d := one(key, value)
		if rng.IntN(4) == 0 {
			d.Entries = append(d.Entries, &commonpb.RateLimitDescriptor_Entry{Key: "inner", Value: []string{"x", "y"}[rng.IntN(2)]})
		}
		if rng.IntN(8) == 0 { // a limit of the call's own, whose counter no limit of the file shares
			d.Entries[0].Value = "own"
			d.Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: rng.Uint32N(12) + 1, Unit: typepb.RateLimitUnit_YEAR}
		}
		switch rng.IntN(6) {
		case 0, 1:
			// A limit of 0 lets a look pass there, until the first hit.
			if !t.never[key] || d.Limit != nil || len(d.Entries) > 1 {
				d.HitsAddend = wrapperspb.UInt64(0)
			}
		case 2:
			d.HitsAddend = wrapperspb.UInt64(rng.Uint64N(8))
		case 3:
			if rng.IntN(20) == 0 {
				d.HitsAddend = wrapperspb.UInt64(1 << 40)
			}
		}
		if d.GetHitsAddend() != nil && d.GetHitsAddend().GetValue() == 0 && t.never[key] && d.Limit == nil {
			d.HitsAddend = nil
		}
		// Here, a look sees all hits of its call, and there only the hits of the descriptors before it.
		if id := key + strings.TrimRight(d.GetEntries()[0].GetValue(), "12"); !seen[id] {
			seen[id] = true
			q.Descriptors = append(q.Descriptors, d)
		}
	}
	return q
}

// judge completes the answer of the original. Before version 05c08d0 it let a call pass whose quotas were all over, and it had
// OK for a quota that was over, without the time until the reset. The call has the descriptors.
func (t *envoyTree) judge(q *ratelimitpb.RateLimitRequest, v *ratelimitpb.RateLimitResponse) {
	quotas, over := 0, 0
	for i, status := range v.GetStatuses() {
		d := q.GetDescriptors()[i]
		if status.GetCurrentLimit() == nil || d.GetLimit() != nil || len(d.GetEntries()) != 1 || !t.quotas[d.GetEntries()[0].GetKey()] {
			continue
		}
		if strings.HasPrefix(d.GetEntries()[0].GetValue(), "shared") && status.GetCurrentLimit().GetUnit() == ratelimitpb.RateLimitResponse_RateLimit_WEEK {
			continue
		}
		quotas++
		if status.GetDurationUntilReset() == nil {
			status.Code = ratelimitpb.RateLimitResponse_OVER_LIMIT
		}
		if status.GetCode() == ratelimitpb.RateLimitResponse_OVER_LIMIT {
			over++
		}
	}
	if quotas > 0 && over == quotas {
		v.OverallCode = ratelimitpb.RateLimitResponse_OVER_LIMIT
	}
}

// shown writes what is compared of an answer.
func shown(v *ratelimitpb.RateLimitResponse) string {
	texts := []string{v.GetOverallCode().String()}
	for _, s := range v.GetStatuses() {
		l := s.GetCurrentLimit()
		texts = append(texts, fmt.Sprintf("%v %d/%d %v %q", s.GetCode(), s.GetLimitRemaining(), l.GetRequestsPerUnit(), l.GetUnit(), l.GetName()))
	}
	return strings.Join(texts, "; ")
}

// TestDecidesAsTheOriginal makes calls at random to envoyproxy/ratelimit and to servers that replace it, with files at random: over
// memory, over Redis, and hybrid. All answer the same.
func TestDecidesAsTheOriginal(t *testing.T) {
	t.Parallel()
	path := original(t)
	// The units are a day and more. No count may begin again meanwhile.
	if left := 24*time.Hour - time.Duration(time.Now().UnixNano())%(24*time.Hour); left < 2*time.Minute {
		<-time.After(left)
	}
	const calls = 200
	for seed := range redistest.Times(t, 1) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 53))
			tree := randomTree(rng)
			runtime := writeRuntime(t, tree.text)
			there := startOriginal(t, path, runtime, redistest.Start(t).Addr())
			here := map[string]*envoy{}
			for name, start := range inPlace(tree.text) {
				here[name] = start(t)
			}
			denied := 0
			for step := range calls {
				q := tree.randomCall(rng)
				v := there.answer(q)
				tree.judge(q, v)
				want := shown(v)
				if v.GetOverallCode() == ratelimitpb.RateLimitResponse_OVER_LIMIT {
					denied++
				}
				for name, e := range here {
					if got := shown(e.answer(q)); got != want {
						t.Fatalf("step %d, %s, with\n%s%v\ngot  %s\nwant %s", step, name, tree.text, q, got, want)
					}
				}
			}
			if denied < calls/20 || denied > calls-calls/20 {
				t.Errorf("%d of %d calls were denied", denied, calls)
			}
		})
	}
}
