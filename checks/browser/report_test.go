package browser

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/sluicehq/sluice/checks/process"
)

// shop writes an access log of two days of a shop. One of its clients is in a hurry, and its requests are hostile text.
func shop(t *testing.T) string {
	t.Helper()
	random := rand.New(rand.NewPCG(27, 7))
	at := time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC)
	var b strings.Builder
	line := func(client int, path string) {
		fmt.Fprintf(&b, "198.51.%d.%d - - [%s] \"GET %s HTTP/1.1\" 200 512 \"-\" \"curl\"\n", client/256, client%256, at.Format("02/Jan/2006:15:04:05 -0700"), path)
	}
	for range 15_000 {
		hour := float64(at.Hour())
		at = at.Add(time.Duration(random.ExpFloat64() * float64(10*time.Second) * (1 + (hour-14)*(hour-14)/25)))
		client := random.IntN(600)
		for range 1 + client%6 {
			line(client, fmt.Sprintf("/items/%d", random.IntN(8)))
		}
		if random.IntN(40) == 0 {
			for range 30 {
				line(700, "/search?q="+hostile)
				line(700, "/"+hostile)
			}
		}
	}
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// written runs sluice in a folder with two configurations, and returns the page and the document that it writes.
func written(t *testing.T, command, log string, args ...string) (page string, document map[string]any) {
	t.Helper()
	folder := t.TempDir()
	for name, rate := range map[string]string{"old.yaml": "600/m, burst: 100", "new.yaml": "20/m, burst: 10"} {
		text := "version: 1\nrules:\n  - name: per-client\n    key: client_ip\n    limit: {algorithm: token_bucket, rate: " + rate + "}\n"
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args = append([]string{command, log, "-c", "new.yaml", "--html", "report.html", "--json", "report.json"}, args...)
	c := exec.CommandContext(t.Context(), process.Program(), args...)
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("sluice %s fails: %v: %s", command, err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return "file://" + filepath.Join(folder, "report.html"), document
}

// number returns a number of a document, by the names on its way.
func number(t *testing.T, document any, path ...string) int64 {
	t.Helper()
	for _, name := range path {
		object, ok := document.(map[string]any)
		if !ok {
			t.Fatalf("the document has no %v", path)
		}
		document = object[name]
	}
	n, ok := document.(float64)
	if !ok {
		t.Fatalf("the document has no number %v", path)
	}
	return int64(n)
}

// still checks what holds for each report: its text is inert, its only address is its own, and it fits the screen.
func (b *tab) still(width int) {
	b.t.Helper()
	if n := eval[int](b, `document.querySelectorAll("script, iframe, object, form").length`); n != 0 {
		b.t.Errorf("the report has %d scripts or frames", n)
	}
	if n := eval[int](b, `performance.getEntriesByType("resource").filter((e) => !e.name.startsWith("data:")).length`); n != 0 {
		b.t.Errorf("the report requests %d other files", n)
	}
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > width {
		b.t.Errorf("on a screen of %d pixels, the report is %d wide", width, wide)
	}
	if mistakes := b.console(); len(mistakes) > 0 {
		b.t.Errorf("the console has %q", mistakes)
	}
}

// TestReplayReport opens the page of a replay: its numbers equal the document's, hostile paths stay text, and nothing is
// requested from a network.
func TestReplayReport(t *testing.T) {
	page, document := written(t, "replay", shop(t), "--against", "old.yaml")
	b := open(t, page, 1280, 900, light)
	tiles := strings.ReplaceAll(eval[string](b, `[...document.querySelectorAll(".tile b")].map((e) => e.textContent).join(" ")`), ",", "")
	want := fmt.Sprint(number(t, document, "newly_limited", "clients"), number(t, document, "freed", "clients"),
		number(t, document, "clients", "limited"), number(t, document, "requests", "limited"))
	if tiles != want || number(t, document, "newly_limited", "clients") == 0 {
		t.Errorf("the page has %s, and the document %s", tiles, want)
	}
	var sum int64
	for _, cell := range document["matrix"].([]any) { //nolint:forcetypeassert // otherwise the test fails too
		sum += number(t, cell, "requests")
	}
	if got := eval[int64](b, `[...document.querySelectorAll("h2")].find((e) => e.textContent === "Before and now").nextElementSibling
		.querySelectorAll("tbody tr").values().reduce((sum, row) => sum + Number(row.cells[3].textContent.replaceAll(",", "")), 0)`); got != sum || sum != number(t, document, "requests", "total") {
		t.Errorf("the cells of the page add up to %d requests, and the document's to %d", got, sum)
	}
	if n := eval[int](b, fmt.Sprintf(`[...document.querySelectorAll("code")].filter((e) => e.textContent === %q).length`, "GET /"+hostile)); n != 1 {
		t.Errorf("%d endpoints are the hostile path as text, want 1", n)
	}
	b.still(1280)
	b.shoot("replay.png", true)
	narrow := open(t, page, 360, 800, light)
	narrow.still(360)
	narrow.shoot("replay-narrow.png", true)
}

// TestSuggestReport opens the page of a suggestion, and selects the curve of another rate by the keyboard only.
func TestSuggestReport(t *testing.T) {
	page, document := written(t, "suggest", shop(t), "--share", "95%")
	b := open(t, page, 1280, 900, light)
	rule, ok := document["rules"].([]any)[0].(map[string]any)
	if !ok || rule["refused"] != nil {
		t.Fatalf("the document has no suggestion: %v", document)
	}
	text := eval[string](b, `document.body.innerText`)
	for _, name := range []string{"token_bucket", "fixed_window"} {
		suggestion := rule[name].(map[string]any) //nolint:forcetypeassert // otherwise the test fails too
		measured := fmt.Sprintf("limits %d of %d clients", number(t, suggestion, "measured", "limited_keys"), number(t, suggestion, "measured", "keys"))
		if !strings.Contains(text, suggestion["yaml"].(string)) || !strings.Contains(text, measured) {
			t.Errorf("the page lacks what the document has: %v", suggestion)
		}
	}
	shown := `[...document.querySelectorAll(".view")].filter((e) => e.getClientRects().length > 0).map((e) => e.innerText).join()`
	before := eval[string](b, shown)
	for range 20 {
		b.run(chromedp.KeyEvent(kb.Tab))
		if eval[bool](b, `document.activeElement.type === "radio"`) {
			break
		}
	}
	b.run(chromedp.KeyEvent(kb.ArrowLeft))
	if after := eval[string](b, shown); after == before || !strings.Contains(after, "denied clients at ") {
		t.Errorf("after the key, the page shows the curve %q, and before it %q", after, before)
	}
	b.still(1280)
	b.shoot("suggest.png", true)
	narrow := open(t, page, 360, 800, light)
	narrow.still(360)
	narrow.shoot("suggest-narrow.png", true)
}
