package app

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// file holds its own certificate.
	file string
	life time.Duration // of its next certificates; an hour if it is zero
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	der, key := a.sign("test authority", true)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	a.file = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) sign(name string, ca bool) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(cmp.Or(a.life, time.Hour)),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: ca, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if ca {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// pair writes a certificate and its key.
func (a *authority) pair(name string) (cert, key string) {
	a.t.Helper()
	der, private := a.sign(name, false)
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "EC PRIVATE KEY", secret)
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// securely returns a service that wants a client's certificate.
func securely(t *testing.T, a *authority, h http.HandlerFunc, protocols ...string) string {
	t.Helper()
	cert, key := a.pair("service")
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool(), NextProtos: protocols}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestTLSOnBothSides(t *testing.T) {
	t.Parallel()
	inner, outer := newAuthority(t), newAuthority(t)
	service := securely(t, inner, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s to %s over %s for %s", r.TLS.PeerCertificates[0].Subject.CommonName, r.TLS.ServerName, r.Proto, r.Header.Get("X-Forwarded-Proto"))
	}, "h2", "http/1.1")
	clientCert, clientKey := inner.pair("sluice")
	cert, key := outer.pair("front")
	configuration := fmt.Sprintf(`
version: 1
listen:
  proxy: {address: '127.0.0.1:0', tls: {cert: %q, key: %q, min_version: "1.3"}}
  api: {address: '127.0.0.1:0', tls: {cert: %q, key: %q}}
  admin: '127.0.0.1:0'
upstream:
  url: %s
  tls: {ca: %q, cert: %q, key: %q, server_name: service}
rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 3/h}}]
`, cert, key, cert, key, service, inner.file, clientCert, clientKey)
	r := start(t, parse(t, configuration), nil)
	plain := r.client

	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: outer.pool()}, ForceAttemptHTTP2: proto == "HTTP/2.0"}
		r.client = &http.Client{Transport: tr, Timeout: patience}
		res, text := r.send(Proxy, http.MethodGet, "/", "")
		if res.Proto != proto || res.TLS.Version != tls.VersionTLS13 || text != "sluice to service over HTTP/2.0 for https" {
			t.Errorf("%s, TLS %x, the service saw: %s", res.Proto, res.TLS.Version, text)
		}
		if !strings.HasPrefix(r.URL(API), "https://") || r.status(API, "/openapi.yaml") != http.StatusOK {
			t.Error("the API does not answer over TLS")
		}
		tr.CloseIdleConnections()
	}

	old := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: outer.pool(), MaxVersion: tls.VersionTLS12}}
	defer old.CloseIdleConnections()
	if res, err := (&http.Client{Transport: old}).Get(r.URL(Proxy)); err == nil {
		res.Body.Close()
		t.Error("a client that speaks TLS 1.2 only got an answer, although 1.3 is required")
	}
	r.client = plain
	if got := r.status(Admin, "/livez"); got != http.StatusOK {
		t.Errorf("the admin listener answers %d", got)
	}
}

func TestAServiceThatIsNotTrustedGetsNothing(t *testing.T) {
	t.Parallel()
	inner := newAuthority(t)
	service := securely(t, inner, func(http.ResponseWriter, *http.Request) { t.Error("the service was reached") }, "h2", "http/1.1")
	const rule = "\nrules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 9/h}}]"
	for name, upstream := range map[string]string{
		"the system's authorities": "upstream: " + service,
		"another authority":        fmt.Sprintf("upstream: {url: %s, tls: {ca: %q}}", service, newAuthority(t).file),
		"no client certificate":    fmt.Sprintf("upstream: {url: %s, tls: {ca: %q}}", service, inner.file),
		"another name":             fmt.Sprintf("upstream: {url: %s, tls: {ca: %q, server_name: other}}", service, inner.file),
	} {
		r := start(t, parse(t, free+upstream+rule), nil)
		if got := r.status(Proxy, "/"); got != http.StatusBadGateway {
			t.Errorf("%s: answers %d", name, got)
		}
	}
}
