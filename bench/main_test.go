package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/fleet"
)

func TestMain(m *testing.M) {
	fleet.Main() // a process of TestHybridPartsAreMeasured
	os.Exit(m.Run())
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
		{"-plot", "file"},
		{"-gubernator", "file"},
		{"-ratelimit", "file"},
		{"-traefik", "file"},
		{"-part", "redis", "-duration", "0s"},
		{"-part", "redis", "-callers", "none"},
		{"-part", "redis", "-callers", ""},
		{"-part", "redis", "-callers", "0"},
		{"-part", "redis", "-callers", "1,,2"},
		{"-part", "redis", "-callers", "1, 2"},
		{"-part", "redis", "-callers", "5000"},
		{"-part", "redis", "-callers", "-1"},
	} {
		if _, err := parse(parts(), bad, io.Discard); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestLineOmitsWhereToWrite(t *testing.T) {
	c, err := parse(parts(), []string{
		"-part", "redis,hybrid", "-quick", "-only", "hot/x", "-callers", "7,8", "-plot", "svg", "-o", "file", "-cpuprofile", "file", "-check",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"go -C bench run . -part redis -callers 7,8 -only 'hot/x' -quick",
		"go -C bench run . -part hybrid -only 'hot/x' -plot svg -quick",
	} {
		if got := c.line(c.parts[i]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// day is the day of all runs.
var day = time.Date(2026, time.November, 24, 12, 0, 0, 0, time.UTC)

// bench runs the command. It returns its output, and the page that it has written.
func bench(t *testing.T, args ...string) (report, page string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.md")
	var out strings.Builder
	if err := run(t.Context(), parts(), append(args, "-o", file), &out, io.Discard, day); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), string(written)
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

// A short run in memory writes its parts, a page, and what was not measured.
func TestShortRunWritesAPage(t *testing.T) {
	report, page := bench(t, "-quick", "-part", "memory,http", "-only", "clock|hot-serial/floor")
	compare(t, report,
		[]string{"# Decisions in memory\n", "The run of 24 November 2026, by `", "| time.Since |", "| floor-decision |", "not measured", "-only"},
		[]string{"## Memory", "# Decisions in Redis"})
	compare(t, page,
		[]string{"# Benchmarks\n", "## Decisions in memory\n", "## The net/http middleware\n", "| floor-decision |", "A short run"},
		[]string{"time.Since"})
}

// TestRedisPartsAreMeasured measures every part of every subject in a tiny run against a real server.
func TestRedisPartsAreMeasured(t *testing.T) {
	report, _ := bench(t, "-part", "redis", "-quick", "-callers", "2,64")
	compare(t, report, []string{
		"# Decisions in Redis\n", "-part redis -callers 2,64 -quick`",
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
	report, _ := bench(t, "-part", "redis", "-quick", "-only", "keys-1/minimal")
	compare(t, report,
		[]string{"| minimal, rueidis ", "not measured"},
		[]string{"redis_rate |", "## Memory", "## Decisions on one hot key"})
}

// TestHybridPartsAreMeasured measures some parts in a tiny run with real processes and a real server.
func TestHybridPartsAreMeasured(t *testing.T) {
	report, _ := bench(t, "-part", "hybrid", "-quick", "-only", "local|(hot|low)/(hybrid|exact)|zipf/naive|plot/hybrid")
	compare(t, report, []string{
		"# Hybrid limits\n", "-part hybrid -only",
		"## Bars", "## A local decision", "## One hot key", "## 1000 Zipf keys", "## What is admitted", "## The plot, by window",
	}, []string{"## Errors"})
}
