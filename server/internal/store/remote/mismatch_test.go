package remote

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// answering returns the address of a server that gives the same answer to everything.
func answering(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte(text))
			conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestTellsWhatAServerSpeaks(t *testing.T) {
	for text, want := range map[string]struct{ plain, tls bool }{
		"+PONG\r\n":                                 {plain: true},
		"-NOAUTH Authentication required.\r\n":      {plain: true},
		"-DENIED Redis is running in protected\r\n": {plain: true},
		"\x16\x03\x03\x00\x7a\x02":                  {tls: true},
		"\x15\x03\x03\x00\x02\x02\x46":              {}, // an alert, such as for plain text
		"HTTP/1.1 400 Bad Request\r\n":              {},
		"":                                          {},
	} {
		address := answering(t, text)
		if got := speaksPlain(t.Context(), address); got != want.plain {
			t.Errorf("%q: without TLS %t", text, got)
		}
		if got := speaksTLS(t.Context(), address); got != want.tls {
			t.Errorf("%q: with TLS %t", text, got)
		}
	}
	if nowhere := unusedAddress(t); speaksPlain(t.Context(), nowhere) || speaksTLS(t.Context(), nowhere) {
		t.Error("nobody speaks")
	}
}

// What speaks none of these is an outage: it may be Redis again the next time.
func TestKeepsErrorsThatItCannotExplain(t *testing.T) {
	address := answering(t, "220 mail.example.com ready\r\n")
	_, err := Check(t.Context(), at(address))
	if err == nil || hopeless(err) || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), "TLS") {
		t.Errorf("got %v", err)
	}
}

// The address of a web server is a mistake, and the server does not start with it.
func TestSaysThatAServerSpeaksHTTP(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for name, address := range map[string]string{
		"net/http": web.Listener.Addr().String(), "another": answering(t, "HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		for _, overTLS := range []bool{false, true} {
			f := at(address)
			f.TLS.Enabled = overTLS
			s, err := Open(t.Context(), f, slog.New(slog.DiscardHandler), telemetry.NewMetrics("test"), func(err error) { t.Error(err) })
			if err == nil {
				s.Close()
				t.Fatalf("%s: opened", name)
			}
			if want := address + " speaks HTTP, so it is not a Redis server; give the port of Redis"; !strings.Contains(err.Error(), want) {
				t.Errorf("%s, over TLS %t: %v", name, overTLS, err)
			}
		}
	}
}
