//go:build unix

package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
	"golang.org/x/sys/unix"
)

// benchLog writes a log of nginx's combined format, or with durations and milliseconds.
func benchLog(tb testing.TB, lines, clients int, exact bool) string {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	at := time.Date(2026, 5, 17, 10, 0, 0, 0, time.UTC)
	for range lines {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)))
		n := int(float64(clients) * random.Float64() * random.Float64())
		stamp := at.Format("[02/Jan/2006:15:04:05 -0700]")
		if exact {
			stamp = fmt.Sprintf("%d.%03d", at.Unix(), at.Nanosecond()/1e6)
		}
		fmt.Fprintf(&b, `203.%d.%d.%d - - %s "GET /api/items/%d HTTP/1.1" 200 %d "https://example.com/" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"`,
			n>>16, n>>8&255, n&255, stamp, random.IntN(100), random.IntN(20000))
		b.WriteByte('\n')
	}
	name := filepath.Join(tb.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		tb.Fatalf("the log is not written: %v", err)
	}
	return name
}

const exactFormat = `nginx:$remote_addr - $remote_user $msec "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

// benchRules are rules for the address of clients.
func benchRules(n int) *Policy {
	p := &Policy{Name: "bench", IPv6Prefix: 64}
	for i := range n {
		p.Options.Rules = append(p.Options.Rules, policy.Rule{
			Name: fmt.Sprintf("r%d", i), Key: []policy.Part{policy.ClientIP()},
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(int64(60 * (i + 1))), Burst: 50})},
		})
	}
	return p
}

// processor returns the processor time of the test, which other programs on the machine change little.
func processor() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReplay measures lines. The bars are 1.2 million lines a second with one rule, and 0.75 with three.
func BenchmarkReplay(b *testing.B) {
	for _, exact := range []bool{true, false} {
		name, format := benchLog(b, 500_000, 20_000, exact), "combined"
		if exact {
			format = exactFormat
		}
		b.Run(fmt.Sprintf("parse only, exact %v", exact), func(b *testing.B) {
			began := processor()
			for b.Loop() {
				reader, err := logs.Open(logs.Options{Files: []string{name}, Format: format})
				if err != nil {
					b.Fatalf("the log is not opened: %v", err)
				}
				for rs := (logs.Records{}); reader.Next(&rs, batchSize); {
				}
				_ = reader.Close()
			}
			b.ReportMetric(float64((processor()-began).Nanoseconds())/(500_000*float64(b.N)), "cpu-ns/line")
		})
		for _, rules := range []int{1, 3} {
			b.Run(fmt.Sprintf("%d rules, exact %v", rules, exact), func(b *testing.B) {
				began := processor()
				for b.Loop() {
					report, err := Run(context.Background(), Options{
						Policy: benchRules(rules), Logs: logs.Options{Files: []string{name}, Format: format}, Names: plain,
					})
					if err != nil || report.Requests.Total != 500_000 {
						b.Fatalf("the replay ends with %v, and the report is %+v", err, report)
					}
				}
				b.ReportMetric(500_000*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mlines/s")
				b.ReportMetric(float64((processor()-began).Nanoseconds())/(500_000*float64(b.N)), "cpu-ns/line")
			})
		}
	}
}
