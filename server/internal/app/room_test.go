package app

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

// TestAFullStoreSaysSo: invented keys fill the store. The log and the readiness probe say so, and what happens to new
// keys; the server stays ready. When there is room again, both say so too.
func TestAFullStoreSaysSo(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"share", "deny"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := start(t, parse(t, free+"store: {memory: {max_size: 1MiB, when_full: "+what+"}}\n"+
				"rules: [{name: api, key: 'header:X-Key', limit: {algorithm: fixed_window, rate: 100/h}}]\n"), nil)
			if got := r.readiness(); got != "200 ok\n" {
				t.Fatalf("before: %q", got)
			}
			ask := func(n int) {
				var b strings.Builder
				for i := range 1000 {
					fmt.Fprintf(&b, `,{"method":"GET","path":"/","headers":{"X-Key":"k%d"}}`, 1000*n+i)
				}
				answer, err := r.client.Post(r.URL("api")+"/v1/check", "application/json", strings.NewReader(`{"requests":[`+b.String()[1:]+"]}"))
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
					t.Fatalf("a batch of new keys should be answered: %s, %v", text, err)
				}
			}
			fill := sluice.MustLimit("fill", sluice.FixedWindow{Rate: sluice.PerHour(100)})
			for n := 0; r.memory().Stats().Overflow == 0 && n < 100_000; n++ {
				if _, err := r.memory().Take(t.Context(), fill, sluice.StringKey(strconv.Itoa(n)), 1); err != nil {
					t.Fatal(err)
				}
			}
			ask(0) // of the server, without room
			happens := map[string]string{"share": "they share budgets", "deny": "they are denied"}[what]
			want := "200 ok\nwarning: no room for new keys within store.memory.max_size: " + happens + "\n"
			eventually(t, "readiness names the full store", func() bool { return r.readiness() == want })
			if !strings.Contains(r.log.String(), "there is no room for new keys: "+happens) {
				t.Errorf("the log has nothing about it:\n%s", r.log)
			}
		})
	}
}

// readiness returns the answer of the readiness probe.
func (r *running) readiness() string {
	r.t.Helper()
	answer, err := r.client.Get(r.URL("admin") + "/readyz")
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprint(answer.StatusCode, " ", string(text))
}
