package browser

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/sluicehq/sluice/checks/process"
)

// denied is an expression for the number of denials of a rule that the page shows, with its decimal digits only.
func denied(rule string) string {
	return fmt.Sprintf(`(document.querySelector('#rules tr[data-id=%q]')?.cells[7].textContent ?? "").replaceAll(",", "")`, rule)
}

var picture = flag.String("picture", "", "`FILE` for the picture of README.md, after five minutes of traffic")

// takePicture makes the picture of README.md.
func takePicture(t *testing.T, b *tab) {
	t.Helper()
	<-time.After(5 * time.Minute) // the chart needs a past
	b.run(chromedp.EmulateViewport(1280, 1010))
	if err := os.WriteFile(*picture, of(b, chromedp.CaptureScreenshot()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestThePage opens the page over a busy server. It shows who is limited, and its numbers equal the metrics. Hostile keys
// stay text, and the console has no error.
func TestThePage(t *testing.T) {
	s := server(t)
	stop := traffic(t, s)
	b := open(t, s.URLs["admin"]+"/ui/", 1280, 1500, light)
	b.until("the page shows who is limited", `/(login|per-user) refuses [0-9.]+\/s/.test(document.querySelector("#answer").textContent)`)
	b.until("the page lists limited keys", `document.querySelectorAll("#keys tbody tr").length >= 2`)
	b.until("the page lists bans", `document.querySelectorAll("#bans tbody tr").length >= 1`)
	if text := eval[string](b, `document.body.innerText`); strings.Contains(text, hostile) || strings.Contains(text, "203.0.113.7") {
		t.Errorf("keys are shown before anybody wants to see them: %q", text)
	}
	b.until("the page shows whom the candidate frees", `/the candidate of per-user would [^;]*free [1-9]\d* of [1-9]\d* keys[;.]/.test(document.querySelector("#answer").textContent)`)
	b.until("a key shows that the candidate frees it", `[...document.querySelectorAll('#keys tr[data-id^="per-user"]')].some((e) => e.cells[6].textContent.endsWith("the candidate frees it"))`)
	b.until("a key shows that the candidate limits it", `[...document.querySelectorAll('#keys tr[data-id^="per-user"]')].some((e) => /the candidate denies \d+, not \d+$/.test(e.cells[6].textContent))`)
	b.until("a key shows that only the candidate limits it", `[...document.querySelectorAll('#keys tr[data-id^="export"]')].some((e) => /^limited \(candidate\) by export\/candidate\/1only the candidate would deny these$/.test(e.cells[6].textContent) && e.cells[2].textContent !== "0")`)
	b.shoot("masked.png", true)
	if *picture != "" {
		takePicture(t, b)
	}

	stop()
	numbers := metrics(t, s)
	for _, rule := range []string{"login", "per-user", "search", "export"} {
		want := numbers[fmt.Sprintf(`sluice_decisions_total{outcome="denied",rule=%q}`, rule)]
		b.until(fmt.Sprintf("rule %s has %s denials, as in the metrics", rule, want), fmt.Sprintf(`%s === %q`, denied(rule), want))
	}

	// The page counts keys as the API lists them.
	var list struct {
		Keys []struct {
			Rule, Role string
			Denials    int
			Candidate  *struct {
				WouldDeny int `json:"would_deny"`
			}
		}
	}
	if err := json.Unmarshal([]byte(process.Get(t, s.URLs["admin"]+"/v1/keys?rule=per-user&most=1000")), &list); err != nil {
		t.Fatal(err)
	}
	compared, freed := 0, 0
	for _, k := range list.Keys {
		if k.Candidate != nil {
			if compared++; k.Candidate.WouldDeny == 0 {
				freed++
			}
		}
	}
	want := fmt.Sprintf("would free %d of %d keys", freed, compared)
	b.until("the page shows, as the API, that the candidate "+want, fmt.Sprintf(`document.querySelector('#rules tr[data-id="per-user"]').cells[1].textContent.endsWith(%q)`, want))

	// The key that only a candidate denies has as many denials there as in the API, and as its candidate in the metrics.
	if err := json.Unmarshal([]byte(process.Get(t, s.URLs["admin"]+"/v1/keys?rule=export")), &list); err != nil {
		t.Fatal(err)
	}
	if n := numbers[`sluice_candidate_decisions_total{outcome="denied",rule="export"}`]; len(list.Keys) != 1 || list.Keys[0].Role != "candidate" || fmt.Sprint(list.Keys[0].Denials) != n {
		t.Errorf("the candidate of export denied %s requests, and the keys are %+v", n, list.Keys)
	}
	b.until("the page has the count of the API", fmt.Sprintf(`document.querySelector('#keys tr[data-id^="export"]').cells[2].textContent.replaceAll(",", "") === "%d"`, list.Keys[0].Denials))

	b.run(chromedp.Click(chromedp.CSS("#reveal")))
	b.until("a hostile key is shown as text", fmt.Sprintf(`[...document.querySelectorAll("#keys .key")].some((e) => e.textContent === %q)`, hostile))
	if n := eval[int](b, `document.querySelectorAll("script").length`); n != 1 {
		t.Errorf("the page has %d scripts, want its own one", n)
	}
	b.shoot("revealed.png", true)

	b.until("buttons lift bans", `document.querySelectorAll("#bans tbody button:not(.show-key)").length >= 1`)
	eval[bool](b, `document.querySelector("#bans tbody button:not(.show-key)").click(), true`)
	b.run(chromedp.Click(chromedp.CSS("#yes")))
	b.until("the ban is lifted", `document.querySelectorAll("#bans tbody tr").length === 0`)
	if mistakes := b.console(); len(mistakes) > 0 {
		t.Errorf("the console has %q", mistakes)
	}
}

// TestThePageByKeyboard uses the page without a mouse, and with the smallest screen.
func TestThePageByKeyboard(t *testing.T) {
	s := server(t)
	traffic(t, s)
	b := open(t, s.URLs["admin"]+"/ui/", 360, 800, light)
	b.until("the page lists limited keys", `document.querySelectorAll("#keys tbody tr").length >= 2`)
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("on a screen of 360 pixels, the page is %d wide", wide)
	}
	b.shoot("narrow.png", true)

	press := func(until, expression string) {
		t.Helper()
		for range 150 {
			b.run(chromedp.KeyEvent(kb.Tab))
			if eval[bool](b, expression) {
				return
			}
		}
		t.Fatalf("the Tab key does not reach %s", until)
	}
	press("the range of an hour", `document.activeElement.value === "1h"`)
	b.run(chromedp.KeyEvent(kb.Enter))
	b.until("Enter selects the range", `location.hash.includes("range=1h") && document.activeElement.getAttribute("aria-pressed") === "true"`)
	press("the button of a rule", `document.activeElement.closest("tr")?.dataset.id === "per-user"`)
	b.run(chromedp.KeyEvent(kb.Enter))
	b.until("Enter selects the rule", `location.hash.includes("rule=per-user") && document.querySelector("#chart-title").textContent === "Requests of rule per-user"`)
	b.until("the focus stays where it was while numbers change", `document.activeElement.closest("tr")?.dataset.id === "per-user"`)
	b.until("the rule is described", `document.querySelector("#words").textContent.includes("60 in any minute")`)
	b.run(chromedp.Focus(chromedp.CSS("#chart")), chromedp.KeyEvent(kb.ArrowLeft))
	b.until("an arrow reads a step of the chart", `/^\d\d:\d\d:\d\d to /.test(document.querySelector("#at").textContent)`)

	// A link keeps the view.
	b.run(chromedp.Reload())
	b.until("the view comes back", `document.querySelector("#chart-title").textContent === "Requests of rule per-user"`)
	b.run(chromedp.Focus(chromedp.CSS("#explain [name=path]")), chromedp.KeyEvent(kb.End+"login"+kb.Enter))
	b.until("the form explains a request", `document.querySelector("#explained").textContent.includes("login: the method GET is not POST")`)
	if unnamed := eval[int](b, `[...document.querySelectorAll("button, input, textarea")].filter((e) => e.checkVisibility() && !(e.textContent || e.ariaLabel || e.labels?.length)).length`); unnamed > 0 {
		t.Errorf("%d buttons and fields have no name for a screen reader", unnamed)
	}
	if mistakes := b.console(); len(mistakes) > 0 {
		t.Errorf("the console has %q", mistakes)
	}
}

// Expressions for what a page shows of its server.
const (
	silent = `document.querySelector("#status").textContent === "no answer" && !document.querySelector("#trouble").hidden`
	alive  = `document.querySelector("#status").textContent === "live" && document.querySelector("#trouble").hidden`
	gone   = `document.querySelector("#status").textContent === "no answer" && document.querySelector("#trouble").textContent.includes("does not answer since")`
)

// TestThePageBehindAProxy serves the page below another path, and stops the server.
func TestThePageBehindAProxy(t *testing.T) {
	s := server(t)
	stop := traffic(t, s)
	target, err := url.Parse(s.URLs["admin"])
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/tools/sluice", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1,
	}))
	t.Cleanup(proxy.Close)
	b := open(t, proxy.URL+"/tools/sluice/ui", 1280, 900, dark)
	b.until("the page is live", `document.querySelector("#status").textContent === "live" && document.querySelectorAll("#rules tbody tr").length === 5`)
	if at := eval[string](b, `location.pathname`); at != "/tools/sluice/ui/" {
		t.Errorf("the page is at %s", at)
	}
	b.shoot("dark.png", true)
	if mistakes := b.console(); len(mistakes) > 0 {
		t.Errorf("the console has %q", mistakes)
	}

	// The connections stay open, and the server is silent.
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.until("a silent server is shown", silent)
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.until("the page comes back", alive)
	stop()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.Ended()
	b.until("a server that is gone is shown", gone)
	b.shoot("gone.png", false)
}

// TestThePageNeedsTheToken signs in with the admin token, and stays signed in until the tab is closed.
func TestThePageNeedsTheToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-admin-token-of-this-test"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := server(t, "--admin-token-file", token)
	b := open(t, s.URLs["admin"]+"/ui/", 1280, 900, light)
	b.until("the page requests the token", `document.querySelector("#question-dialog").open && document.activeElement.id === "token"`)
	if rows := eval[int](b, `document.querySelectorAll("tbody tr").length`); rows > 0 {
		t.Errorf("without a token, the page has %d rows", rows)
	}
	b.run(chromedp.KeyEvent("a-wrong-token" + kb.Enter))
	b.until("a wrong token is refused", `document.querySelector("#question-dialog").open && document.querySelector("#token").value === ""`)
	b.run(chromedp.KeyEvent("the-admin-token-of-this-test" + kb.Enter))
	b.until("the page is live", `document.querySelector("#status").textContent === "live" && document.querySelectorAll("#rules tbody tr").length === 5`)
	b.run(chromedp.Reload())
	b.until("the page is live again", `document.querySelector("#status").textContent === "live" && !document.querySelector("#question-dialog").open`)
	b.shoot("token.png", false)
	for _, mistake := range b.console() {
		if !strings.Contains(mistake, "401 (Unauthorized)") { // of the calls without the token
			t.Errorf("the console has %q", mistake)
		}
	}
}
