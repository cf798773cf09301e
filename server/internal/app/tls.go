package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/sluicehq/sluice/policyfile"
)

// serverTLS reads a listener's certificate, nil without one.
func serverTLS(name string, t *policyfile.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // TLS may be off
	}
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
	}
	return config, nil
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
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
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
