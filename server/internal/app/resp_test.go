package app

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/config"
)

const forRedisClients = `version: 1
listen: {proxy: "off", api: "off", admin: '127.0.0.1:0', resp: '127.0.0.1:0'}
rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]
`

// lines sends text and returns the lines of the answer.
func lines(t *testing.T, to io.Writer, from *bufio.Reader, text string, n int) string {
	t.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		t.Fatal(err)
	}
	var all []string
	for range n {
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		all = append(all, strings.TrimSpace(line))
	}
	return strings.Join(all, " ")
}

// Decisions for Redis clients are counted by rule and edge, and CL.THROTTLE has a rule of its own, also after a reload.
func TestDecisionsOfRedisClientsAreCounted(t *testing.T) {
	t.Parallel()
	f := parse(t, forRedisClients)
	r := start(t, f, func(o *Options) { o.Load = func() (*config.File, error) { return parse(t, forRedisClients), nil } })
	announced(t, r, "resp   redis://127.0.0.1:")
	c, in := r.connect(RESP)
	if got := lines(t, c, in, "CL.THROTTLE user123 15 30 60\r\n", 6); got != "*5 :0 :16 :15 :-1 :2" {
		t.Errorf("the reply to CL.THROTTLE is %s", got)
	}
	if got := lines(t, c, in, "SLUICE.CHECK one 192.0.2.1\r\nSLUICE.CHECK one 192.0.2.1\r\n", 3); got != "*16 $7 allowed" {
		t.Errorf("the replies to SLUICE.CHECK are %s", got)
	}
	for path, body := range map[string]string{"/v1/bans": `, "for_ms": 1000}`, "/v1/reset": "}"} {
		if res, text := r.send(Admin, "POST", path, `{"rule": "(cl.throttle)", "key": ["user123"]`+body, "Content-Type", "application/json"); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s of a key of CL.THROTTLE is answered %d %s", path, res.StatusCode, text)
		}
	}
	pressure := r.figure(`sluice_rule_pressure_ratio{rule="(cl.throttle)"}`)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	for series, want := range map[string]string{
		`sluice_decisions_total{outcome="allowed",rule="(cl.throttle)"}`: "1",
		`sluice_decisions_total{outcome="allowed",rule="one"}`:           "1",
		`sluice_decisions_total{outcome="denied",rule="one"}`:            "1",
		`sluice_decision_duration_seconds_count{edge="resp"}`:            "3",
		`sluice_rule_pressure_ratio{rule="(cl.throttle)"}`:               pressure,
	} {
		if got := r.figure(series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
	if pressure == "0" {
		t.Error("CL.THROTTLE makes no pressure")
	}
	if log := r.log.String(); !strings.Contains(log, "edge=resp") || strings.Contains(log, "192.0.2.1") {
		t.Errorf("the log of a denial:\n%s", log)
	}
}

// Clients of Redis prove themselves as callers of the decision API do.
func TestRedisClientsHaveTheTokenOfTheAPI(t *testing.T) {
	t.Parallel()
	f := parse(t, strings.Replace(forRedisClients, "resp: '127.0.0.1:0'", "resp: '0.0.0.0:0'", 1)+"api: {token: the-api-token-123456}\n")
	r := start(t, f, func(o *Options) {
		o.APIToken, o.Token, o.ReadToken = "the-api-token-123456", "the-admin-token-1234", "the-read-token-12345"
	})
	announced(t, r, "resp   redis://0.0.0.0:", "with a token")
	for text, want := range map[string]string{
		"PING\r\n": "-NOAUTH Authentication required.", "AUTH the-api-token-123456\r\n": "+OK", "AUTH default the-admin-token-1234\r\n": "+OK",
		"AUTH the-read-token-12345\r\n": "-NOPERM the token lacks the scope decide: the password is the token of the decision API",
	} {
		c, in := r.connect(RESP)
		if got := lines(t, c, in, text, 1); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Over TLS, a client needs a certificate if the listener has an authority.
func TestRedisClientsOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.pair("front")
	f := parse(t, strings.Replace(forRedisClients, "resp: '127.0.0.1:0'",
		fmt.Sprintf("resp: {address: '0.0.0.0:0', tls: {cert: %q, key: %q, client_ca: %q}}", cert, key, ca.file), 1))
	r := start(t, f, nil)
	announced(t, r, "resp   rediss://0.0.0.0:", "with a client certificate")
	mine, myKey := ca.pair("client")
	own, err := tls.LoadX509KeyPair(mine, myKey)
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := r.connect(RESP)
	c := tls.Client(plain, &tls.Config{RootCAs: ca.pool(), ServerName: "front", Certificates: []tls.Certificate{own}})
	if got := lines(t, c, bufio.NewReader(c), "PING\r\n", 1); got != "+PONG" {
		t.Errorf("with a certificate, the reply to PING is %s", got)
	}
	plain, _ = r.connect(RESP)
	c = tls.Client(plain, &tls.Config{RootCAs: ca.pool(), ServerName: "front"})
	if _, err := io.WriteString(c, "PING\r\n"); err == nil {
		if text, err := bufio.NewReader(c).ReadString('\n'); err == nil {
			t.Errorf("a client without a certificate gets %q", text)
		}
	}
}
