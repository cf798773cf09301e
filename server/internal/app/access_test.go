package app

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
)

// For a browser, a web page whose name resolves to this machine has the same origin as this machine. It reaches neither
// the decision API nor the admin pages.
func TestReboundWebPagesGetNoDecision(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]"), nil)
	for listener, path := range map[string]string{API: "/v1/check", Admin: "/v1/peek"} {
		for _, host := range []string{"evil.example", "evil.example:8081", "127.0.0.1.evil.example"} {
			if got := raw(r, listener, path, host, "Origin: http://"+host); got != http.StatusForbidden {
				t.Errorf("%s %s answers %d to a page of %s", listener, path, got, host)
			}
		}
		for _, host := range []string{"127.0.0.1", "localhost:8081"} {
			if got := raw(r, listener, path, host); got != http.StatusOK {
				t.Errorf("%s %s answers %d to %s", listener, path, got, host)
			}
		}
	}
	// The attempts have used nothing: the one unit was there for the first of the two checks.
	if got := r.figure(`sluice_decisions_total{outcome="allowed",rule="one"}`); got != "1" {
		t.Errorf("%s decisions were made", got)
	}
}

// raw sends a request for a decision with a Host header, and returns the status.
func raw(r *running, listener, path, host string, header ...string) int {
	c, answers := r.connect(listener)
	body := `{"method": "GET", "path": "/", "client_ip": "192.0.2.1"}`
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s",
		path, host, strings.Join(append(header, ""), "\r\n"), len(body), body)
	return readStatus(r.t, answers)
}

func readStatus(t *testing.T, from *bufio.Reader) int {
	t.Helper()
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// unprotected is a configuration whose API is at an address that other machines reach.
func unprotected(t *testing.T) *config.File {
	f := parse(t, "version: 1\nlisten: {proxy: off, admin: off}\nrules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 9/h}}]")
	f.Listen.API.Address = "0.0.0.0:0"
	return f
}

// At an address other than loopback the API needs a token, client certificates, or to be open by a setting.
func TestTheAPIElsewhereIsClosed(t *testing.T) {
	t.Parallel()
	a, err := New(Options{File: unprotected(t), Token: "the-admin-token-1234", Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		a.Close()
		t.Fatal("it started without a token of its own")
	}
	for _, want := range []string{"sluice: api: 0.0.0.0:", "can be reached from other machines", "api.token_file", "SLUICE_API_TOKEN", "client_ca", "api.open", "127.0.0.1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}

	f := unprotected(t)
	r := start(t, f, func(o *Options) { o.APIToken, o.Token = "the-api-token-123456", "the-admin-token-1234" })
	announced(t, r, "api    http://0.0.0.0:", "every address of this machine, with a token")
	for token, want := range map[string]int{"": 401, "wrong": 401, "the-api-token-123456": 200, "the-admin-token-1234": 200} {
		if got := raw(r, API, "/v1/check", "sluice.internal", "Authorization: Bearer "+token); got != want {
			t.Errorf("with token %q it answers %d, want %d", token, got, want)
		}
	}
	// The calls for operators need the admin token all the same.
	if got := r.status(API, "/v1/keys", "Authorization", "Bearer the-api-token-123456"); got != http.StatusForbidden {
		t.Errorf("/v1/keys answers %d to the API's token", got)
	}

	f = unprotected(t)
	f.API.Open = true
	r = start(t, f, nil)
	announced(t, r, "api    http://0.0.0.0:", "every address of this machine, open to everybody who reaches it")
	if got := raw(r, API, "/v1/check", "sluice.internal"); got != http.StatusOK {
		t.Errorf("an open API answers %d", got)
	}
	if got := raw(r, API, "/v1/check", "sluice.internal", "Origin: http://evil.example"); got != http.StatusForbidden {
		t.Errorf("an open API answers %d to a web page of another origin", got)
	}
}

// A listener with client_ca answers only clients with a certificate of that authority.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	cert, key := ours.pair("localhost")
	f := unprotected(t)
	f.Listen.API.TLS = &accept.TLS{Cert: cert, Key: key, ClientCA: ours.file}
	r := start(t, f, nil)
	announced(t, r, "api    https://0.0.0.0:", "every address of this machine, with a client certificate")
	call := func(certs []tls.Certificate) error {
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(r.URL(API), "https://"))
		c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, Certificates: certs}}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprint(c, "GET /openapi.yaml HTTP/1.1\r\nHost: sluice.internal\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", res.Status)
		}
		return nil
	}
	load := func(a *authority) []tls.Certificate {
		cert, key := a.pair("caller")
		c, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	if err := call(load(ours)); err != nil {
		t.Errorf("with a certificate of the authority: %v", err)
	}
	if call(nil) == nil || call(load(theirs)) == nil {
		t.Error("it answers without a certificate of the authority")
	}
}

// announced checks that the banner contains some texts.
func announced(t *testing.T, r *running, texts ...string) {
	t.Helper()
	for _, quickStart := range []bool{false, true} {
		var out strings.Builder
		if err := r.Announce(&out, quickStart); err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(text), " ")) {
				t.Errorf("the banner does not contain %q:\n%s", text, out.String())
			}
		}
	}
}
