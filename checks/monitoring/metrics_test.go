package monitoring

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

const metricsPage = "../../docs/metrics.md"

// head begins docs/metrics.md.
const head = `# Metrics

` + "`/metrics` of the admin listener has these metrics, for Prometheus, and the usual ones of a Go process (`go_*`, `process_*`)." + `
A server has the metrics of the features that its configuration uses. No label contains a key. [The
board](../contrib/grafana/sluice.json) for Grafana shows most of them: import the file and choose the data source. [The
alerts](../contrib/prometheus/alerts.yaml) are for ` + "`rule_files`" + ` of Prometheus; [operations](operations.md#what-an-alert-means)
says what to do.

<!-- All below is made from the metrics of two servers: go test ./checks/monitoring -run TestMetricsPage -update -->

| metric | type | labels | meaning | example |
|---|---|---|---|---|
`

// example returns a query that makes sense for a metric.
func (m *metric) example(name string) string {
	by := strings.Join(slices.Sorted(maps.Keys(m.labels)), ", ")
	if by != "" {
		by = " by (" + by + ") "
	}
	switch {
	case m.kind == "counter":
		return fmt.Sprintf("sum%s(rate(%s[5m]))", by, name)
	case m.kind == "histogram":
		return fmt.Sprintf("histogram_quantile(0.99, sum by (%s) (rate(%s_bucket[5m])))", strings.Join(append([]string{"le"}, slices.Sorted(maps.Keys(m.labels))...), ", "), name)
	case strings.HasSuffix(name, "_expiry_timestamp_seconds"):
		return "(" + name + " - time()) / 86400"
	case strings.HasSuffix(name, "_successful"), strings.HasSuffix(name, "_saved"), strings.HasSuffix(name, "_up"):
		return "min(" + name + ")"
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return "time() - " + name
	}
	return fmt.Sprintf("max%s(%s)", by, name)
}

// registered finds the names of metrics in code.
var registered = regexp.MustCompile(`"(sluice_[a-z_]+[a-z])"`)

// TestMetricsPageIsComplete searches the code of the server for metrics that the page lacks.
func TestMetricsPageIsComplete(t *testing.T) {
	page := read(t, metricsPage)
	parts := map[string]bool{"sluice_local": true, "sluice_store": true, "sluice_marked": true} // beginnings of names, and an attribute
	found := 0
	err := filepath.WalkDir("../../server/internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range registered.FindAllStringSubmatch(read(t, path), -1) {
			if found++; !parts[m[1]] && !strings.Contains(page, "| `"+m[1]+"` |") {
				t.Errorf("%s has the metric %s, and docs/metrics.md lacks it: give a server of this test what makes it", path, m[1])
			}
		}
		return nil
	})
	if err != nil || found < 50 {
		t.Errorf("%d names are in the code, %v", found, err)
	}
}

// TestMetricsPage compares docs/metrics.md with the metrics of real servers, from which it is made.
func TestMetricsPage(t *testing.T) {
	all := start(t).scrape(t)
	var page strings.Builder
	page.WriteString(head)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		if !strings.HasPrefix(name, "sluice_") {
			continue
		}
		if m.help == "" || !strings.HasSuffix(m.help, ".") {
			t.Errorf("the help of %s is %q, want a sentence", name, m.help)
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | `%s` |\n", name, m.kind, strings.Join(slices.Sorted(maps.Keys(m.labels)), ", "), m.help, m.example(name))
	}
	if *update {
		if err := os.WriteFile(metricsPage, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(old) != page.String() {
		t.Error("docs/metrics.md is stale: run go test ./checks/monitoring -run TestMetricsPage -update")
	}
}
