package secret

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// ClientTLS reads the authorities to trust, and the client certificate. Errors name the setting.
func ClientTLS(setting string, u *TLS) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         u.ServerName,
		InsecureSkipVerify: u.Insecure, //nolint:gosec // an option, named for what it is
	}
	var errs []error
	if u.CA != "" {
		pool, err := Authorities(setting+".ca", u.CA)
		config.RootCAs, errs = pool, append(errs, err)
	}
	if u.Cert != "" || u.Key != "" {
		cert, err := KeyPair(setting, u.Cert, u.Key)
		errs = append(errs, err)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return config, nil
}

// KeyPair reads a certificate and its private key, from the settings cert and key of a section.
func KeyPair(section, cert, key string) (pair tls.Certificate, err error) {
	certAt, keyAt := section+".cert", section+".key"
	certText, err1 := readPEM(certAt, cert)
	keyText, err2 := readPEM(keyAt, key)
	if err1 == nil && !holdsCertificate(certText) {
		err1 = Mistake(certAt, cert+" holds no certificate", "give a PEM file with BEGIN CERTIFICATE")
	}
	if err := errors.Join(err1, err2); err != nil {
		return pair, err
	}
	if pair, err = tls.X509KeyPair(certText, keyText); err != nil {
		problem := strings.TrimPrefix(err.Error(), "tls: ")
		return pair, Mistake(keyAt, fmt.Sprintf("%s is not the private key of %s: %s", key, cert, problem), "give PEM files that belong together as cert and key")
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

// Authorities reads a file of certificates to trust.
func Authorities(setting, file string) (*x509.CertPool, error) {
	text, err := readPEM(setting, file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, Mistake(setting, file+" holds no certificate", "give a PEM file with BEGIN CERTIFICATE")
	}
	return pool, nil
}

func readPEM(setting, file string) ([]byte, error) {
	text, err := ReadFile(file)
	if err != nil {
		return nil, Mistake(setting, err.Error(), "give the path of a PEM file that this program may read")
	}
	return text, nil
}
