package promises

import (
	"os"
	"strings"
	"testing"
)

// TestGatewaysShowTheFigures: the page of gateways has the short table of the benchmark.
func TestGatewaysShowTheFigures(t *testing.T) {
	var tables [2]string
	for i, page := range []string{"gateways", "benchmarks-doors"} {
		text, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(text), "\n## What each costs\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "|") {
				tables[i] += line
			}
		}
	}
	if tables[0] != tables[1] || strings.Count(tables[0], "\n") < 10 {
		t.Errorf("docs/gateways.md has\n%s\nand docs/benchmarks-doors.md has\n%s", tables[0], tables[1])
	}
}
