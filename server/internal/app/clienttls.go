package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/sluicehq/sluice/policyfile"
)

// clientTLS reads whom to trust at the upstream, and who we are.
func clientTLS(u *policyfile.UpstreamTLS) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         u.ServerName,
		InsecureSkipVerify: u.Insecure, //nolint:gosec // an option, named for what it is
	}
	if u.CA != "" {
		pem, err := os.ReadFile(u.CA)
		if err != nil {
			return nil, fmt.Errorf("the upstream: upstream.tls.ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the upstream: upstream.tls.ca: %s holds no certificate; give a PEM file", u.CA)
		}
	}
	if u.Cert != "" || u.Key != "" {
		cert, err := tls.LoadX509KeyPair(u.Cert, u.Key)
		if err != nil {
			return nil, fmt.Errorf("the upstream: its client certificate: %w; give PEM files that belong together as upstream.tls.cert and upstream.tls.key", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}
