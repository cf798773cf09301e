//go:build unix

package logs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processor returns the processor time of the test, which other programs on the machine do not change much.
func processor() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchmarkFile writes a log of nginx, with 500 requests a second: 10 GB a day.
func benchmarkFile(b *testing.B, most int) (name string, n int) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	start := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	n = most
	for i := range n {
		fmt.Fprintf(&text, `%d.%d.%d.%d - - [%s] "GET /products/%d?page=%d HTTP/1.1" 200 %d "https://shop.example/list" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"`+"\n",
			random.IntN(223)+1, random.IntN(256), random.IntN(256), random.IntN(256), start.Add(time.Duration(i)*2*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"),
			random.IntN(1e6), random.IntN(9), random.IntN(1e5))
	}
	return write(b, "access.log", text.String()), n
}

// BenchmarkCombined reads a log of nginx; lines/s is of one core.
func BenchmarkCombined(b *testing.B) {
	name, n := benchmarkFile(b, 500_000)
	b.ReportAllocs()
	b.ResetTimer()
	begin := processor()
	for range b.N {
		r, err := Open(Options{Files: []string{name}, Format: "combined"})
		if err != nil {
			b.Fatalf("the log is not opened: %v", err)
		}
		var rs Records
		read := 0
		for r.Next(&rs, 256) {
			read += len(rs.All)
		}
		if r.Err() != nil || read != n {
			b.Fatalf("%d of %d records are read: %v", read, n, r.Err())
		}
		_ = r.Close()
	}
	b.ReportMetric(float64(n)*float64(b.N)/(processor()-begin).Seconds(), "lines/s")
}

// BenchmarkParse parses the lines of nginx, without files and order.
func BenchmarkParse(b *testing.B) {
	name, n := benchmarkFile(b, 5_000)
	r, err := Open(Options{Files: []string{name}, Format: "combined"})
	if err != nil {
		b.Fatalf("the log is not opened: %v", err)
	}
	defer r.Close()
	text, err := os.ReadFile(name)
	if err != nil {
		b.Fatalf("the log is not read: %v", err)
	}
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	p := r.format.parser.clone()
	var rec Record
	b.ResetTimer()
	begin := processor()
	for range b.N {
		for _, line := range all {
			r.reset(&rec)
			why := p.when(line, &rec)
			if why == "" {
				why = p.parse(line, &rec)
			}
			if why != "" {
				b.Fatalf("the line %q is not read: %s", line, why)
			}
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/(processor()-begin).Seconds(), "lines/s")
}

// BenchmarkSplit only splits the lines.
func BenchmarkSplit(b *testing.B) {
	name, n := benchmarkFile(b, 500_000)
	b.ResetTimer()
	begin := processor()
	for range b.N {
		s := source{name: name, chunks: &chunks{}}
		if err := s.open(); err != nil {
			b.Fatalf("the log is not opened: %v", err)
		}
		read := 0
		for {
			if _, _, more := s.next(); !more {
				break
			}
			read++
		}
		if read != n {
			b.Fatalf("%d of %d lines are read: %v", read, n, s.err)
		}
		_ = s.close()
	}
	b.ReportMetric(float64(n)*float64(b.N)/(processor()-begin).Seconds(), "lines/s")
}
