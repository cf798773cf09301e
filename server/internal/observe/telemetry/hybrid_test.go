package telemetry

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/hybrid"
)

// Each figure of a hybrid limit is a series, with the rule and the limit as labels.
func TestHybridMetrics(t *testing.T) {
	m := NewMetrics("test")
	limits := []hybrid.LimitStats{{
		Limit: "hot/2", Keys: 1, Over: 2, Under: 3, Escrow: 4, Unspent: 5, Unreported: 6, Overdraft: 7,
		Granted: 8, Spent: 9, Returned: 10, Expired: 11, Lost: 12, Local: 13, Cached: 14, Exact: 15, Calls: 16,
		LastSync: time.Now().Add(-time.Hour), SyncTime: 250 * time.Millisecond, GrantSize: 17, Excess: 18,
	}, {Limit: "idle"}}
	m.Hybrid(func() []hybrid.LimitStats { return limits })
	scrape := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	got := scrape()
	const of = `{limit="hot/2",rule="hot"}`
	for _, want := range []string{
		"sluice_hybrid_keys" + of + " 1", "sluice_hybrid_over_units" + of + " 2", "sluice_hybrid_under_units" + of + " 3",
		"sluice_hybrid_escrow_units" + of + " 4", "sluice_hybrid_unspent_units" + of + " 5", "sluice_hybrid_unreported_units" + of + " 6",
		"sluice_hybrid_overdraft_units" + of + " 7",
		`sluice_hybrid_units_total{limit="hot/2",outcome="granted",rule="hot"} 8`, `sluice_hybrid_units_total{limit="hot/2",outcome="spent",rule="hot"} 9`,
		`sluice_hybrid_units_total{limit="hot/2",outcome="returned",rule="hot"} 10`, `sluice_hybrid_units_total{limit="hot/2",outcome="expired",rule="hot"} 11`,
		`sluice_hybrid_units_total{limit="hot/2",outcome="lost",rule="hot"} 12`,
		`sluice_hybrid_decisions_total{by="local",limit="hot/2",rule="hot"} 13`, `sluice_hybrid_decisions_total{by="cached",limit="hot/2",rule="hot"} 14`,
		`sluice_hybrid_decisions_total{by="exact",limit="hot/2",rule="hot"} 15`,
		"sluice_hybrid_calls_total" + of + " 16", "sluice_hybrid_sync_age_seconds" + of + " 3600", "sluice_hybrid_sync_duration_seconds" + of + " 0.25",
		"sluice_hybrid_grant_units" + of + " 17", "sluice_hybrid_excess_units" + of + " 18",
		`sluice_hybrid_sync_age_seconds{limit="idle",rule="idle"} 0`,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	page, err := os.ReadFile("../../../../docs/hybrid.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("`(sluice_hybrid_[a-z_]+)[`{]").FindAllStringSubmatch(string(page), -1)
	if n := strings.Count(got, "# TYPE sluice_hybrid_"); len(documented) != n {
		t.Errorf("docs/hybrid.md names %d of %d metrics", len(documented), n)
	}
	for _, name := range documented {
		if !strings.Contains(got, "# TYPE "+name[1]+" ") {
			t.Errorf("docs/hybrid.md names %s, which is not a metric", name[1])
		}
	}
	// A limit that is gone leaves no series.
	limits = nil
	if got := scrape(); strings.Contains(got, "\nsluice_hybrid_") {
		t.Error("a limit that is gone has series")
	}
}
