package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// overRedis runs sluice with the policy and a hybrid rule over a Redis.
func overRedis(t *testing.T, r *redistest.Server) *process.Sluice {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	text := policy + `  - name: tenants
    match: {path: /api/*}
    key: ["header:X-User"]
    cost: 5
    limit: {algorithm: token_bucket, rate: 60000/m, burst: 1000}
    hybrid: true
` + fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", r.Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return process.StartSluice(t, exec.Command(process.Program(), "serve", file), 2) //nolint:noctx // it ends with the test
}

// hangs is an expression: the page shows that another server does not answer.
const hangs = `/1 of 2 servers does not answer/.test(document.querySelector("#notes").textContent) && /no answer for/.test(document.querySelector("#servers").textContent)`

// TestSilenceIsShownWithinThreeSeconds stops one of two servers: its page and the other server's page show that in time.
func TestSilenceIsShownWithinThreeSeconds(t *testing.T) {
	r := redistest.Start(t)
	stays, ends := overRedis(t, r), overRedis(t, r)
	other := open(t, stays.URLs["admin"]+"/ui/", 1280, 900, light)
	own := open(t, ends.URLs["admin"]+"/ui/", 1280, 900, light)
	other.until("the page lists both servers", `document.querySelectorAll("#servers tbody tr").length === 2`)
	own.until("the page is live", alive)
	signal := func(s syscall.Signal) (began time.Time) {
		t.Helper()
		if err := ends.Signal(s); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}
	soon := func(b *tab, what, expression string, began time.Time) {
		t.Helper()
		b.until(what, expression)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s after %v, want 3 s at most", what, took)
		}
	}
	began := signal(syscall.SIGSTOP)
	soon(own, "the own page shows a silent server", silent, began)
	soon(other, "the page of another server shows a server that hangs", hangs, began)
	signal(syscall.SIGCONT)
	own.until("the page comes back", alive)
	signal(syscall.SIGTERM)
	<-ends.Ended()
	soon(own, "the page shows a server that is gone", gone, time.Now())
}

// TestThePageOfServersOfARedis opens the page of one of two busy servers: the numbers are the sums of both metrics, or of this server's only
// if the operator wants that. A key gets other numbers by a dialog. A server that hangs is shown, and so is Redis while it does not
// answer.
func TestThePageOfServersOfARedis(t *testing.T) {
	r := redistest.Start(t)
	servers := []*process.Sluice{overRedis(t, r), overRedis(t, r)}
	stops := []func(){traffic(t, servers[0]), traffic(t, servers[1])}
	b := open(t, servers[0].URLs["admin"]+"/ui/", 1280, 1500, light)
	b.until("the page lists both servers", `document.querySelectorAll("#servers tbody tr").length === 2 && document.querySelector("#server").textContent.includes("sum of 2 servers")`)
	b.until("the page shows who is limited", `/(login|per-user) refuses [0-9.,]+\/s/.test(document.querySelector("#answer").textContent)`)
	b.until("hybrid limits are shown", `document.querySelectorAll("#hybrid tbody tr").length === 1`)
	b.until("the rate of the sample is shown", `document.querySelector("#heavy-note").textContent.includes("one in 256")`)
	b.until("demand is shown in units too", `/units\/s/.test(document.querySelector('#rules tr[data-id="tenants"]').cells[2].textContent)`)
	if text := eval[string](b, `document.body.innerText`); strings.Contains(text, hostile) || strings.Contains(text, "203.0.113.7") {
		t.Errorf("keys are shown before anybody wants to see them: %q", text)
	}
	b.shoot("servers.png", true)
	t.Run("narrow", func(t *testing.T) { // the tab is closed afterwards
		narrow := open(t, servers[1].URLs["admin"]+"/ui/", 360, 800, dark)
		narrow.until("the narrow page lists both servers", `document.querySelectorAll("#servers tbody tr").length === 2`)
		if wide := eval[int](narrow, `document.documentElement.scrollWidth`); wide > 360 {
			t.Errorf("on a screen of 360 pixels, the page of several servers is %d wide", wide)
		}
		narrow.shoot("servers-narrow-dark.png", true)
	})

	// A key of a rule without a ban gets other numbers.
	const row = `document.querySelector('#keys tr[data-id^="per-user"]')`
	b.until("a key of per-user is listed", row+` !== null`)
	eval[bool](b, row+`.querySelectorAll(".acts button:not(.show-key)")[2].click(), true`)
	b.until("the dialog is open", `document.querySelector("#override-dialog").open`)
	b.run(chromedp.Focus(chromedp.CSS(`#override-numbers [name=rate]`)), chromedp.KeyEvent("9000/m"))
	b.run(chromedp.Focus(chromedp.CSS(`#override-note`)), chromedp.KeyEvent("ticket 7"))
	b.shoot("override.png", false)
	eval[bool](b, `document.querySelector("#override-dialog button.primary").click(), true`)
	b.until("the key has the new numbers", `[...document.querySelectorAll("#keys tbody tr")].some((e) => e.cells[7].textContent.endsWith(" of 9,000"))`)

	for _, stop := range stops {
		stop()
	}
	sum := func(series string, of ...*process.Sluice) string {
		total := 0
		for _, s := range of {
			n, err := strconv.Atoi(metrics(t, s)[series])
			if err != nil {
				t.Fatalf("the metrics have no number %s: %v", series, err)
			}
			total += n
		}
		return strconv.Itoa(total)
	}
	expect := func(of ...*process.Sluice) {
		t.Helper()
		for _, rule := range []string{"login", "per-user", "search", "export", "tenants"} {
			want := sum(fmt.Sprintf(`sluice_decisions_total{outcome="denied",rule=%q}`, rule), of...)
			b.until(fmt.Sprintf("rule %s has %s denials, as in the metrics of %d servers", rule, want, len(of)), fmt.Sprintf(`%s === %q`, denied(rule), want))
		}
	}
	expect(servers...)
	b.run(chromedp.Click(chromedp.CSS(`#scope [value=this]`)))
	expect(servers[0])
	b.run(chromedp.Click(chromedp.CSS(`#scope [value=all]`)))
	expect(servers...)
	if mistakes := b.console(); len(mistakes) > 0 {
		t.Errorf("the console has %q", mistakes)
	}

	if err := servers[1].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.until("a server that hangs is shown", hangs)
	if err := servers[1].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.until("the server is back", `!/does not answer/.test(document.querySelector("#notes").textContent)`)

	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	traffic(t, servers[0])
	b.until("the open breaker is shown", `/^open, since/.test(document.querySelector('#store dd[data-id="ddBreaker"]').textContent) && document.querySelector("#summary").className === "ill"`)
	b.until("the list of servers is marked as old", `document.querySelector("#servers-note").textContent.includes("the store does not answer")`)
	b.shoot("without-redis.png", true)
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	b.until("the store is back", `document.querySelector('#store dd[data-id="ddBreaker"]').textContent.startsWith("closed") && document.querySelector("#servers-note").textContent === ""`)
	if mistakes := b.console(); len(mistakes) > 0 {
		t.Errorf("the console has %q", mistakes)
	}
}
