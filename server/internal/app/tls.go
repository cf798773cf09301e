package app

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/edge/proxy"
)

// serverTLS returns the TLS configuration of a listener, nil without a certificate. Clients may choose
// one of the protocols. The files are read again when they change.
func (a *App) serverTLS(name string, t *policyfile.TLS, protocols []string) (*tls.Config, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // TLS may be off
	}
	var current atomic.Pointer[tls.Config]
	expiring := &expiring{logger: a.logger, listener: name}
	read := func() error {
		config, err := readServerTLS(name, t)
		if err != nil {
			return err
		}
		config.NextProtos = protocols
		current.Store(config)
		expiring.next.Store(0)
		expiring.served(config, time.Now())
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
			config := current.Load()
			expiring.served(config, time.Now())
			return config, nil
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
	at := "listen." + name + ".tls"
	cert, err := keyPair(at, t.Cert, t.Key)
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.MinVersion == "1.3" {
		config.MinVersion = tls.VersionTLS13
	}
	if t.ClientCA != "" {
		var refused error
		config.ClientCAs, refused = authorities(at+".client_ca", t.ClientCA)
		err = errors.Join(err, refused)
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// A resumed session would go on with a certificate of an authority that is no longer trusted.
		config.SessionTicketsDisabled = true
	}
	if err != nil {
		return nil, err
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
	var errs []error
	if u.CA != "" {
		pool, err := authorities(setting+".ca", u.CA)
		config.RootCAs, errs = pool, append(errs, err)
	}
	if u.Cert != "" || u.Key != "" {
		cert, err := keyPair(setting, u.Cert, u.Key)
		errs = append(errs, err)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return config, nil
}

// filesOf returns the names that are given.
func filesOf(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// keyPair reads a certificate and its private key, from the settings cert and key of a section.
func keyPair(section, cert, key string) (pair tls.Certificate, err error) {
	certAt, keyAt := section+".cert", section+".key"
	certText, err1 := readPEM(certAt, cert)
	keyText, err2 := readPEM(keyAt, key)
	if err1 == nil && !holdsCertificate(certText) {
		err1 = mistake(certAt, cert+" holds no certificate", "give a PEM file with BEGIN CERTIFICATE")
	}
	if err := errors.Join(err1, err2); err != nil {
		return pair, err
	}
	if pair, err = tls.X509KeyPair(certText, keyText); err != nil {
		problem := strings.TrimPrefix(err.Error(), "tls: ")
		return pair, mistake(keyAt, fmt.Sprintf("%s is not the private key of %s: %s", key, cert, problem), "give PEM files that belong together as cert and key")
	}
	return pair, nil
}

// holdsCertificate reports whether a PEM file begins its certificates with a valid one.
func holdsCertificate(text []byte) bool {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return false
		}
		if block.Type == "CERTIFICATE" {
			_, err := x509.ParseCertificate(block.Bytes)
			return err == nil
		}
	}
}

// authorities reads a file of certificates to trust.
func authorities(setting, file string) (*x509.CertPool, error) {
	text, err := readPEM(setting, file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, mistake(setting, file+" holds no certificate", "give a PEM file with BEGIN CERTIFICATE")
	}
	return pool, nil
}

func readPEM(setting, file string) ([]byte, error) {
	text, err := ReadFile(file)
	if err != nil {
		return nil, mistake(setting, err.Error(), "give the path of a PEM file that this program may read")
	}
	return text, nil
}
