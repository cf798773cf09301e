package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/fleet"
)

func TestMain(m *testing.M) {
	fleet.Main() // a process of TestHybrid
	os.Exit(m.Run())
}

func TestParseCallers(t *testing.T) {
	got, err := parseCallers("1,16,64,256")
	if want := []int{1, 16, 64, 256}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "0", "1,,2", "1, 2", "x", "5000", "-1"} {
		if got, err := parseCallers(bad); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

func TestParseRefusesMistakes(t *testing.T) {
	for _, bad := range [][]string{
		{"-only", "("},
		{"surplus"},
		{"-unknown"},
		{"-part", "disk"},
		{"-part", ""},
		{"-duration", "1s"},
		{"-callers", "1"},
		{"-check"},
		{"-plot", "file"},
		{"-gubernator", "file"},
		{"-ratelimit", "file"},
		{"-traefik", "file"},
		{"-part", "redis", "-duration", "0s"},
		{"-part", "redis", "-callers", "none"},
	} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestLineOmitsWhereToWrite(t *testing.T) {
	c, err := parse([]string{"-part", "redis", "-quick", "-only", "hot/x", "-callers", "7", "-o", "file", "-cpuprofile", "file", "-check"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if want := "go -C checks run ./cmd/bench -callers 7 -only 'hot/x' -part redis -quick"; c.line() != want {
		t.Errorf("got %q, want %q", c.line(), want)
	}
}

// bench runs the command and returns its report, which must be in its file too.
func bench(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.md")
	var out strings.Builder
	if err := run(t.Context(), append(args, "-o", file), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != out.String() {
		t.Error("the file differs from the output")
	}
	return out.String()
}

// compare checks what a report has and has not.
func compare(t *testing.T, report string, has, lacks []string) {
	t.Helper()
	for _, want := range has {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for _, not := range lacks {
		if strings.Contains(report, not) {
			t.Errorf("the report has %q", not)
		}
	}
}

func TestMemory(t *testing.T) {
	compare(t, bench(t, "-quick", "-only", "clock|hot-serial/floor"),
		[]string{"# Benchmarks\n", "| time.Since |", "| floor-decision |", "not measured", "-only"},
		[]string{"## Memory", "# Benchmarks with Redis"})
}

// TestRedis measures every part of every subject in a tiny run against a real server.
func TestRedis(t *testing.T) {
	report := bench(t, "-part", "redis", "-quick", "-callers", "2,64")
	compare(t, report, []string{
		"# Benchmarks with Redis\n", "-callers 2,64 -part redis -quick`",
		"## Bars", "## Decisions over 1000 keys", "## Decisions on one hot key", "## Latency over 1000 keys",
		"## The server's processor", "## Four limits at once", "## Memory", "## Versions", "github.com/redis/rueidis",
	}, nil)
	// Two tables of rates, one of ratios, two of latencies, one of costs.
	for _, subject := range []string{
		"sluice, rueidis", "sluice, go-redis", "minimal, rueidis", "minimal, go-redis", "return 1, rueidis",
		"go-redis/redis_rate", "ulule/limiter", "sethvargo/go-redisstore", "throttled",
	} {
		if n := strings.Count(report, "\n| "+subject+" "); n < 6 {
			t.Errorf("%s is in %d tables", subject, n)
		}
	}
}

func TestRedisMeasuresOnly(t *testing.T) {
	compare(t, bench(t, "-part", "redis", "-quick", "-only", "keys-1/minimal"),
		[]string{"| minimal, rueidis ", "not measured"},
		[]string{"redis_rate |", "## Memory", "## Decisions on one hot key"})
}

// TestHybrid measures some parts in a tiny run with real processes and a real server.
func TestHybrid(t *testing.T) {
	report := bench(t, "-part", "hybrid", "-quick", "-only", "local|(hot|low)/(hybrid|exact)|zipf/naive|plot/hybrid")
	compare(t, report, []string{
		"# Benchmarks of hybrid limits\n", "-part hybrid -quick`",
		"## Bars", "## A local decision", "## One hot key", "## 1000 Zipf keys", "## What is admitted", "## The plot, by window",
	}, []string{"## Errors"})
}
