package direct

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

// An answer with a control character, a folded line or a stray colon is left to package http. All other bytes pass.
func TestOnlyPlainAnswersAreReadAtOnce(t *testing.T) {
	plain := func(head string) bool {
		d := &conn{in: bufio.NewReader(strings.NewReader(head))}
		if _, err := d.in.Peek(len(head)); err != nil {
			t.Fatal(err)
		}
		return d.plainAnswer(http.MethodGet) != nil
	}
	for c := range 256 {
		control := c < ' ' || c == 0x7f
		for at, want := range map[string]bool{
			"HTTP/1.1 200 a%cb\r\nContent-Length: 0\r\n\r\n":            !control,
			"HTTP/1.1 200 OK\r\nX-A: a%cb\r\nContent-Length: 0\r\n\r\n": !control || c == '\t',
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A:%c\r\n\r\n":    !control || c == '\t',
			"HTTP/1.1 200 OK\r\nX%cA: b\r\nContent-Length: 0\r\n\r\n":   httpguts.IsTokenRune(rune(c)) || c == ':',
			"HTTP/1.1 200 OK\r\n%cX-A: b\r\nContent-Length: 0\r\n\r\n":  httpguts.IsTokenRune(rune(c)),
			"HTTP/1.1 200 OK\r\nContent-Length%c: 0\r\n\r\n":            false,
			"HTTP/1.1 200 OK\r\nContent-Length: 1%c\r\n\r\n":            '0' <= c && c <= '9' || c == ' ' || c == '\t',
			"HTTP/1.1 20%c OK\r\nContent-Length: 0\r\n\r\n":             '0' <= c && c <= '9' && c != '4',
			"HTTP/1.1 200%cOK\r\nContent-Length: 0\r\n\r\n":             c == ' ',
			"HTTP/1.1%c200 OK\r\nContent-Length: 0\r\n\r\n":             c == ' ',
		} {
			head := strings.Replace(at, "%c", string([]byte{byte(c)}), 1)
			if got := plain(head); got != want {
				t.Errorf("%q is plain: %t", head, got)
			}
		}
	}
	for head, want := range map[string]bool{
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                               true,
		"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n":                                  true,
		"HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n":                               true,
		"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nX-A:\r\n\r\n":                       true,
		"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999999\r\n\r\n":              true,
		"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000\r\n\r\n":             false,
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n":                              false,
		"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n":                              false,
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n":                                 false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n":          false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\ncontent-length: 1\r\n\r\n":          false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n": false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\ntransfer-encoding: x\r\n\r\n":       false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n":          false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTrailer: X-A\r\n\r\n":               false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nPragma: no-cache\r\n\r\n":           false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=5\r\n\r\n":      false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nupgrade: h2c\r\n\r\n":               false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nProxy-Authenticate: Basic\r\n\r\n":  false,
		"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n":                                          false,
		"HTTP/1.1 200 OK\r\n\r\n":                                                    false,
		"HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n":                        false,
		"HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 0\r\n\r\n":                        false,
		"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n":               false,
		"HTTP/1.1 200 OK\nContent-Length: 0\n\r\n\r\n":                               false,
		"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n":                         false,
		"HTTP/1.1 199 OK\r\nContent-Length: 0\r\n\r\n":                               false,
		"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n":                       false,
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n":                     false,
		"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n":                              false,
		"HTTP/1.1 20\r\nContent-Length: 0\r\n\r\n":                                   false,
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n":                               false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n":                                   false,
	} {
		if got := plain(head); got != want {
			t.Errorf("%q is plain: %t", head, got)
		}
	}
}
