package app

import (
	"crypto/tls"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/proxy"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// serverTLS returns the TLS configuration of a listener, nil without a certificate. Clients may choose
// one of the protocols. The files are read again when they change.
func (a *App) serverTLS(name string, t *accept.TLS, protocols []string) (*tls.Config, error) {
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
func readServerTLS(name string, t *accept.TLS) (*tls.Config, error) {
	at := "listen." + name + ".tls"
	cert, err := secret.KeyPair(at, t.Cert, t.Key)
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.MinVersion == "1.3" {
		config.MinVersion = tls.VersionTLS13
	}
	if t.ClientCA != "" {
		var refused error
		config.ClientCAs, refused = secret.Authorities(at+".client_ca", t.ClientCA)
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
func (a *App) useClientTLS(setting string, u *secret.TLS, t *proxy.Transport) error {
	return a.refreshes.add("the certificates of "+setting, filesOf(u.CA, u.Cert, u.Key), func() error {
		config, err := secret.ClientTLS(setting, u)
		if err == nil {
			t.SetTLS(config)
		}
		return err
	})
}

// filesOf returns the names that are given.
func filesOf(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
