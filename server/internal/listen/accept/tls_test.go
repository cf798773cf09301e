package accept

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A certificate that expires while it is served is logged once an hour.
func TestServedCertificatesThatExpire(t *testing.T) {
	var log bytes.Buffer
	now := time.Now()
	e := &expiring{logger: slog.New(slog.NewTextHandler(&log, nil)), listener: "proxy"}
	config := &tls.Config{Certificates: []tls.Certificate{{Leaf: &x509.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}}}}
	for _, c := range []struct {
		after time.Duration
		lines int
	}{{0, 0}, {59 * time.Minute, 0}, {61 * time.Minute, 1}, {62 * time.Minute, 1}, {122 * time.Minute, 2}, {-2 * time.Hour, 2}} {
		e.served(config, now.Add(c.after))
		if got := strings.Count(log.String(), "is not valid now"); got != c.lines {
			t.Errorf("after %v: %d lines, want %d", c.after, got, c.lines)
		}
	}
}
