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
		pem, err := os.ReadFile(u.CA)
		if err != nil {
			return nil, fmt.Errorf("%s.ca: %w", setting, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s.ca: %s holds no certificate; give a PEM file", setting, u.CA)
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
