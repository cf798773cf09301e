package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands present a certificate to a listener that demands one.
func TestCommandsHaveCertificates(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[]}`) }))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	pair := s.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string // in the error; empty for none
	}{
		{[]string{"--cert", cert, "--key", key}, ""},
		{nil, "certificate"},
		{[]string{"--cert", cert}, "give both or none"},
		{[]string{"--key", key}, "give both or none"},
		{[]string{"--cert", key, "--key", cert}, "give the PEM files of a certificate and its key"},
	} {
		root := Root()
		root.SetArgs(append([]string{"keys", "--server", s.URL, "--ca", cert}, c.args...))
		root.SetOut(&strings.Builder{})
		err := root.ExecuteContext(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: the error is %v, want %q", c.args, err, c.want)
		}
	}
}

// A server at a Unix socket has the name localhost, and TLS if the flags of TLS are given.
func TestCommandsCallSockets(t *testing.T) {
	for want, c := range map[string]client{
		"http://localhost":  {server: "unix:/run/a.sock"},
		"https://localhost": {server: "unix:/run/a.sock", ca: "ca.pem"},
		"https://a.example": {server: "https://a.example/"},
	} {
		if got := c.url(); got != want {
			t.Errorf("%s is called at %s, want %s", c.server, got, want)
		}
	}
}
