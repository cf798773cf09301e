package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/proxy"
)

// serverTLS returns the TLS configuration of a listener, nil without a certificate. Clients may choose
// one of the protocols. The files are read again when they change.
func (a *App) serverTLS(name string, t *policyfile.TLS, protocols []string) (*tls.Config, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // TLS may be off
	}
	var current atomic.Pointer[tls.Config]
	read := func() error {
		config, err := readServerTLS(name, t)
		if err != nil {
			return err
		}
		config.NextProtos = protocols
		current.Store(config)
		return nil
	}
	if err := a.refreshes.add("the certificate of the "+name+" listener", filesOf(t.Cert, t.Key, t.ClientCA), read); err != nil {
		return nil, err
	}
	a.metrics.Gauges("sluice_certificate_expiry_timestamp_seconds", "When the certificate of a listener expires, in Unix time.",
		"listener", []string{name}, func(string) float64 { return expiry(&current.Load().Certificates[0]) })
	return &tls.Config{
		MinVersion: current.Load().MinVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return current.Load(), nil
		},
	}, nil
}

// expiry returns when a certificate expires, in Unix time.
func expiry(cert *tls.Certificate) float64 {
	if cert.Leaf == nil {
		return 0
	}
	return float64(cert.Leaf.NotAfter.Unix())
}

// readServerTLS reads the certificate of a listener.
func readServerTLS(name string, t *policyfile.TLS) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("the %s listener: its certificate: %w; give PEM files that belong together as tls.cert and tls.key", name, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.MinVersion == "1.3" {
		config.MinVersion = tls.VersionTLS13
	}
	if t.ClientCA != "" {
		if config.ClientCAs, err = authorities(t.ClientCA); err != nil {
			return nil, fmt.Errorf("the %s listener: tls.client_ca: %w", name, err)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// A resumed session would go on with a certificate of an authority that is no longer trusted.
		config.SessionTicketsDisabled = true
	}
	return config, nil
}

// useClientTLS makes a transport use the authorities and the client certificate of a setting. They are read again when their files
// change.
func (a *App) useClientTLS(setting string, u *policyfile.UpstreamTLS, t *proxy.Transport) error {
	return a.refreshes.add("the certificates of "+setting, filesOf(u.CA, u.Cert, u.Key), func() error {
		config, err := clientTLS(setting, u)
		if err == nil {
			t.SetTLS(config)
		}
		return err
	})
}

// clientTLS reads the authorities to trust, and the client certificate. Errors name the setting.
func clientTLS(setting string, u *policyfile.UpstreamTLS) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         u.ServerName,
		InsecureSkipVerify: u.Insecure, //nolint:gosec // an option, named for what it is
	}
	if u.CA != "" {
		var err error
		if config.RootCAs, err = authorities(u.CA); err != nil {
			return nil, fmt.Errorf("%s.ca: %w", setting, err)
		}
	}
	if u.Cert != "" || u.Key != "" {
		cert, err := tls.LoadX509KeyPair(u.Cert, u.Key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate: %w; give PEM files that belong together as %[2]s.cert and %[2]s.key", err, setting)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return config, nil
}

// filesOf returns the names that are given.
func filesOf(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// authorities reads a file of certificates to trust.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate; give a PEM file", file)
	}
	return pool, nil
}
