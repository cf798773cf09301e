package app

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
)

// replace copies one file over another.
func replace(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Certificates change twenty times under load. Each change has a moment in which the certificate and the key do
// not belong together. No request fails, and the new certificate is in use when Refresh returns.
func TestCertificatesChangeUnderLoad(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.pair("localhost")
	f := parse(t, free)
	f.Listen.Proxy.TLS = &accept.TLS{Cert: cert, Key: key}
	r := start(t, f, nil)

	var requests atomic.Int64
	done := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool()}, DisableKeepAlives: true}
			for {
				select {
				case <-done:
					return
				default:
				}
				res, err := (&http.Client{Transport: tr}).Get(r.URL(Proxy))
				if err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				requests.Add(1)
			}
		})
	}
	serial := func() string {
		c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: a.pool()}}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.URL(Proxy), "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	last := serial()
	times := soak.Times(t, 8)
	for range times {
		newCert, newKey := a.pair("next")
		replace(t, newCert, cert)
		if r.Refresh() == nil {
			t.Error("a certificate without its key is in use")
		}
		if got := serial(); got != last {
			t.Errorf("a refused certificate is in use")
		}
		if got := r.figure("sluice_files_refused"); got != "1" {
			t.Errorf("sluice_files_refused is %s", got)
		}
		replace(t, newKey, key)
		if err := r.Refresh(); err != nil {
			t.Error(err)
		}
		now := serial()
		if now == last {
			t.Error("the old certificate is still in use")
		}
		last = now
	}
	close(done)
	load.Wait()
	if requests.Load() < 20 {
		t.Errorf("only %d requests were sent", requests.Load())
	}
	for name, want := range map[string]string{
		"sluice_files_refused": "0", `sluice_file_refreshes_total{outcome="applied"}`: strconv.Itoa(times), `sluice_file_refreshes_total{outcome="refused"}`: strconv.Itoa(times),
	} {
		if got := r.figure(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := r.figure(`sluice_certificate_expiry_timestamp_seconds{listener="proxy"}`); !strings.HasPrefix(got, "1.") {
		t.Errorf("the certificate expires at %s", got)
	}
}

// An authority that is removed no longer opens the listener, not even for a client that resumes its session.
func TestRemovedAuthoritiesAreRefused(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	cert, key := ours.pair("localhost")
	authorities := ours.dir + "/clients.pem"
	replace(t, theirs.file, authorities)
	f := parse(t, free)
	f.Listen.API.TLS = &accept.TLS{Cert: cert, Key: key, ClientCA: authorities}
	r := start(t, f, nil)
	own, err := tls.LoadX509KeyPair(theirs.pair("caller"))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: ours.pool(), Certificates: []tls.Certificate{own}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	call := func() error {
		res, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}).Get(r.URL(API) + "/openapi.yaml")
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		return err
	}
	for range 2 {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	replace(t, ours.file, authorities)
	if err := r.Refresh(); err != nil {
		t.Fatal(err)
	}
	if call() == nil {
		t.Error("a certificate of a removed authority is accepted")
	}
}

// A token file that changes replaces the token. An empty one does not open the server.
func TestTokensChange(t *testing.T) {
	t.Parallel()
	const first, second = "the-first-token-1234", "the-second-token-123"
	file := t.TempDir() + "/token"
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	f := parse(t, free)
	r := start(t, f, func(o *Options) {
		o.Token, o.TokenFiles = first, []string{file}
		o.ReadTokens = func(*config.File) (access.Secrets, error) {
			text, err := os.ReadFile(file)
			return access.Secrets{Admin: string(text)}, err
		}
	})
	status := func(token string) int {
		q, err := http.NewRequest(http.MethodGet, r.URL(Admin)+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	write(second)
	if err := r.Refresh(); err != nil {
		t.Fatal(err)
	}
	if old, now := status(first), status(second); old != http.StatusUnauthorized || now != http.StatusOK {
		t.Errorf("the old token is answered %d, the new one %d", old, now)
	}
	write("") // a server that needs a token does not become open
	if err := r.Refresh(); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("an empty file gives %v", err)
	}
	if old, now := status(""), status(second); old != http.StatusUnauthorized || now != http.StatusOK {
		t.Errorf("after an empty file, no token is answered %d, and the token %d", old, now)
	}
}

// TestAuthoritiesOfTheUpstreamChange replaces the authorities and the client certificate for an https upstream, while requests are
// under way: none of them fails. A service of a removed authority gets no request, not even on a connection that is open.
func TestAuthoritiesOfTheUpstreamChange(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			ours, theirs := newAuthority(t), newAuthority(t)
			inside, leave := make(chan struct{}), make(chan struct{})
			service := securely(t, ours, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/long" {
					_ = http.NewResponseController(w).Flush()
					close(inside)
					<-leave
				}
				_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
			}, protocol)
			bundle := ours.dir + "/bundle.pem"
			replace(t, ours.file, bundle)
			cert, key := ours.pair("client")
			f := parse(t, free+"upstream: {url: '"+service+"', tls: {ca: '"+bundle+"', cert: '"+cert+"', key: '"+key+"', server_name: service}}\n")
			r := start(t, f, nil)
			get := func(path string) (int, string) {
				res, text := r.send(Proxy, http.MethodGet, path, "")
				return res.StatusCode, text
			}
			if status, text := get("/"); status != http.StatusOK || text != "client" {
				t.Fatalf("the service answers %d %q", status, text)
			}
			long := make(chan string)
			go func() {
				_, text := get("/long")
				long <- text
			}()
			<-inside
			replace(t, theirs.file, bundle)
			if err := r.Refresh(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if status, text := get("/"); status != http.StatusBadGateway {
					t.Errorf("a service of a removed authority answers %d %q", status, text)
				}
			}
			close(leave)
			if text := <-long; text != "client" {
				t.Errorf("the request under way is answered %q", text)
			}
			replace(t, key, bundle)
			if err := r.Refresh(); err == nil || !strings.Contains(err.Error(), "upstream.tls.ca") || r.figure("sluice_files_refused") != "1" {
				t.Errorf("a file without certificates gives %v", err)
			}
			both, err := os.ReadFile(ours.file)
			more, err2 := os.ReadFile(theirs.file)
			if err = errors.Join(err, err2); err == nil {
				err = os.WriteFile(bundle, append(both, more...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Refresh(); err != nil {
				t.Fatal(err)
			}

			var load sync.WaitGroup
			done := make(chan struct{})
			var requests atomic.Int64
			for range 4 {
				load.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						res, err := r.client.Get(r.URL(Proxy))
						if err != nil {
							t.Errorf("a request failed: %v", err)
							return
						}
						text, err := io.ReadAll(res.Body)
						_ = res.Body.Close()
						if res.StatusCode != http.StatusOK || err != nil {
							t.Errorf("a request is answered %d %s, %v", res.StatusCode, text, err)
							return
						}
						requests.Add(1)
					}
				})
			}
			for _, name := range []string{"second", "third", "fourth", "fifth"} {
				newCert, newKey := ours.pair(name)
				replace(t, newCert, cert)
				if r.Refresh() == nil {
					t.Error("a certificate without its key is in use")
				}
				replace(t, newKey, key)
				if err := r.Refresh(); err != nil {
					t.Error(err)
				}
				if status, text := get("/"); status != http.StatusOK || text != name {
					t.Errorf("the service sees %d %q, want %q", status, text, name)
				}
			}
			eventually(t, "some load", func() bool { return requests.Load() > 20 })
			close(done)
			load.Wait()
		})
	}
}
