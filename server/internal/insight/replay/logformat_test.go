package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// A log in the format that LogFormat writes has all that the rules need: none is left out.
func TestLogFormatsHaveAllThatRulesNeed(t *testing.T) {
	limits := []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 100})}
	p := rules(
		policy.Rule{Name: "header", Key: []policy.Part{policy.Header("X-Api-Key")}, Limits: limits},
		policy.Rule{Name: "host", Key: []policy.Part{policy.ClientIP()}, Limits: limits, Match: policy.Match{Hosts: []string{"a.example"}}},
		policy.Rule{Name: "response", Key: []policy.Part{policy.Global()}, Limits: limits, Cost: policy.Cost{Source: policy.CostResponseHeader, Header: "X-Cost"}},
		policy.Rule{Name: "bytes", Key: []policy.Part{policy.Query("q")}, Limits: limits, Cost: policy.Cost{Source: policy.CostResponseBytes}},
		policy.Rule{Name: "lease", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 1})}},
		policy.Rule{Name: "failures", Key: []policy.Part{policy.ClientIP()}, Limits: limits, CountStatus: []policy.StatusRange{policy.Status(401)}},
	)
	for server, line := range map[string]string{
		"nginx":   `192.0.2.1 a.example 1800000000.123 "GET /?q=1 HTTP/1.1" 200 12 - 0.005 "k" "3"`,
		"apache":  `192.0.2.1 "a.example" 1800000000123456 "GET /?q=1 HTTP/1.1" 200 12 5000 "k" "3"`,
		"envoy":   `{"time":"2027-01-15T08:00:00.123Z","duration":5,"client":"192.0.2.1:1","method":"GET","target":"/?q=1","host":"a.example","status":200,"sent":12,"received":0,"header_x_api_key":"k","response_x_cost":"3"}`,
		"traefik": `{"ClientHost":"192.0.2.1","DownstreamContentSize":12,"DownstreamStatus":200,"Duration":5000000,"RequestHost":"a.example","RequestMethod":"GET","RequestPath":"/?q=1","StartUTC":"2027-01-15T08:00:00.123456789Z","request_X-Api-Key":"k","downstream_X-Cost":"3"}`,
		"caddy":   `{"ts":1800000000.123456,"request":{"remote_ip":"192.0.2.1","client_ip":"192.0.2.1","method":"GET","host":"a.example","uri":"/?q=1","headers":{"X-Api-Key":["k"]}},"bytes_read":0,"duration":0.005,"size":12,"status":200,"resp_headers":{"X-Cost":["3"]}}`,
	} {
		wanted, err := p.Wanted()
		if err != nil {
			t.Fatal(err)
		}
		text, err := logs.LogFormat(server, wanted)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(name, []byte(line+"\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), Options{Policy: p, Logs: logs.Options{Files: []string{name}, Format: text.Format}, Names: plain})
		if err != nil {
			t.Fatalf("the replay of the log of %s fails: %v\n%s", server, err, text)
		}
		if len(r.Unevaluated) > 0 || r.Log.Bad > 0 || r.Requests.Total != 2 {
			t.Errorf("%s: %d requests, not evaluated are %v, bad lines %v\n%s", server, r.Requests.Total, r.Unevaluated, r.Log.FirstBads, text)
		}
		for _, rule := range r.Rules {
			if rule.Requests != 2 {
				t.Errorf("%s: rule %s matches %d requests", server, rule.Name, rule.Requests)
			}
		}
	}
}

// A server logs a cookie whatever its name is: by itself, or with all others.
func TestLogFormatsHaveCookiesOfAnyName(t *testing.T) {
	for _, cookie := range []string{"sid", "PHPSESSID", "session-id", "a.b", "__Host-Sid"} {
		rule := policy.Rule{Name: "session", Key: []policy.Part{policy.Cookie(cookie)}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1})}}
		p := rules(rule)
		wanted, err := p.Wanted()
		if err != nil {
			t.Fatal(err)
		}
		for server, line := range map[string]string{
			"nginx":   `192.0.2.1 a.example 180000000%d.123 "GET / HTTP/1.1" 200 12 - 0.005 "%s"`,
			"apache":  `192.0.2.1 "a.example" 180000000%d123456 "GET / HTTP/1.1" 200 12 5000 "%s"`,
			"haproxy": `192.0.2.1:1 [15/Jan/2027:08:00:0%d.123] 5 200 "a.example" "GET / HTTP/1.1" "%s"`,
		} {
			text, err := logs.LogFormat(server, wanted)
			if err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			for second, value := range []string{"one", "one", "two"} {
				if strings.Contains(strings.ToLower(text.Format), "header_cookie") || strings.Contains(text.Format, "$http_cookie") {
					value = "x=y; " + cookie + "=" + value
				}
				fmt.Fprintf(&log, line+"\n", second, value)
			}
			name := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(name, []byte(log.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), Options{Policy: p, Logs: logs.Options{Files: []string{name}, Format: text.Format}, Names: plain})
			if err != nil {
				t.Fatalf("%s, cookie %s: the replay fails: %v\n%s", server, cookie, err, text)
			}
			if len(r.Rules) != 1 || r.Rules[0].Requests != 3 || r.Rules[0].Limited != 1 || r.Rules[0].Keys != 1 {
				t.Errorf("%s, cookie %s: the second request of one session is not the only limited one: %+v, not evaluated %+v\n%s", server, cookie, r.Rules, r.Unevaluated, text)
			}
		}
	}
}
