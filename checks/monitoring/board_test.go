package monitoring

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
)

const (
	alertsFile = "../../contrib/prometheus/alerts.yaml"
	boardFile  = "../../contrib/grafana/sluice.json"
)

// TestAlertsFireAndStaySilent has promtool check the alerts and run their tests. Each alert fires in one test, stays silent in another, and links
// to a chapter that exists.
func TestAlertsFireAndStaySilent(t *testing.T) {
	promtool, err := process.Find("prometheus", "promtool")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Dir(alertsFile)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	alerts, tests, page := read(t, alertsFile), read(t, filepath.Join(filepath.Dir(alertsFile), "alerts_test.yaml")), read(t, "../../docs/operations.md")
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(alerts, -1)
	if len(names) < 10 {
		t.Fatalf("there are %d alerts", len(names))
	}
	for _, m := range names {
		for _, want := range []string{"- name: " + m[1] + " fires\n", "- name: " + m[1] + " is silent\n", "alertname: " + m[1] + "\n", "alertname: " + m[1] + ", exp_alerts: []}"} {
			if !strings.Contains(tests, want) {
				t.Errorf("alert %s has no test with %q", m[1], want)
			}
		}
		if !strings.Contains(alerts, "runbook_url: https://github.com/sluicehq/sluice/blob/main/docs/operations.md#"+strings.ToLower(m[1])+"\n") {
			t.Errorf("alert %s has no link to its chapter", m[1])
		}
		if !strings.Contains(page, "\n### "+m[1]+"\n") {
			t.Errorf("docs/operations.md has no chapter %s", m[1])
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// board is a board of Grafana: what the tests read of it.
type board struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct {
		List []struct{ Expr string }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ Type, UID string }
	FieldConfig *struct {
		Defaults struct{ Unit string }
	}
	Targets []struct {
		RefID, Expr string
		Datasource  struct{ UID string }
	}
}

// TestBoardFitsGrafana checks what Grafana needs to import the board: a version of the schema, panels with their own numbers and
// areas, and queries of the data source that the user chooses.
func TestBoardFitsGrafana(t *testing.T) {
	var b board
	if err := json.Unmarshal([]byte(read(t, boardFile)), &b); err != nil {
		t.Fatal(err)
	}
	if b.UID == "" || b.Title == "" || b.SchemaVersion < 36 || b.Templating.List[0].Type != "datasource" {
		t.Errorf("the board begins with %q, %q, version %d", b.UID, b.Title, b.SchemaVersion)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %q has number %d, which is another's or none", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q is outside of the 24 columns: %+v", p.Title, p.GridPos)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panels %q and %q overlap", other, p.Title)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		switch p.Type {
		case "row":
			continue
		case "timeseries", "stat":
		default:
			t.Errorf("panel %q has type %q", p.Title, p.Type)
		}
		if len(p.Targets) == 0 || p.FieldConfig == nil || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %q has no query or no unit", p.Title)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.RefID == "" || q.Datasource.UID != "${datasource}" || p.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q has a query %q without a name of its own, or of another data source", p.Title, q.RefID)
			}
			refs[q.RefID] = true
		}
	}
}

// names finds the names of metrics in queries.
var names = regexp.MustCompile(`\b(?:sluice|process|go)_[a-z_]+\b`)

// TestQueriesHaveTheirMetrics runs all queries of the board and of the alerts in a real Prometheus, over real servers. Each metric
// in them exists, and the alerts are silent over servers that are well.
func TestQueriesHaveTheirMetrics(t *testing.T) {
	w := start(t)
	file, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	p := w.prometheus(t, file)
	metrics := w.scrape(t)
	var queries []string
	var b board
	if err := json.Unmarshal([]byte(read(t, boardFile)), &b); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*", "$rule", ".*")
	for _, panel := range b.Panels {
		for _, q := range panel.Targets {
			queries = append(queries, variables.Replace(q.Expr))
		}
	}
	for _, a := range b.Annotations.List {
		queries = append(queries, a.Expr)
	}
	for _, v := range b.Templating.List {
		if series, _, ok := strings.Cut(strings.TrimPrefix(v.Definition, "label_values("), ", "); ok {
			queries = append(queries, variables.Replace(series))
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Query, State, Health, LastError string }
		}
	}
	process.Eventually(t, "an evaluation of the alerts", func() bool {
		err := p.call(t.Context(), "/api/v1/rules", nil, &rules)
		return err == nil && len(rules.Groups) == 1 && rules.Groups[0].Rules[0].Health == "ok"
	})
	for _, r := range rules.Groups[0].Rules {
		queries = append(queries, r.Query)
		if r.LastError != "" || r.State == "firing" {
			t.Errorf("over servers that are well, alert %s is %s: %s", r.Name, r.State, r.LastError)
		}
	}
	if len(queries) < 60 {
		t.Errorf("there are %d queries", len(queries))
	}
	var up struct{ Result []struct{ Value [2]any } }
	process.Eventually(t, "a scrape of both servers", func() bool {
		err := p.call(t.Context(), "/api/v1/query", url.Values{"query": {"count(sluice_build_info) == 2"}}, &up)
		return err == nil && len(up.Result) == 1
	})
	suffixes := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, q := range queries {
		var result any
		if err := p.call(t.Context(), "/api/v1/query", url.Values{"query": {q}}, &result); err != nil {
			t.Errorf("the query %s fails: %v", q, err)
		}
		for _, name := range names.FindAllString(q, -1) {
			if metrics[name] == nil && metrics[suffixes.ReplaceAllString(name, "")] == nil {
				t.Errorf("no server has the metric %s of the query %s", name, q)
			}
		}
	}
}
