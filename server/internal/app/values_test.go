package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// readAll answers with all values that some service may read in a request: in headers as CGI reads them,
// trailers, parameters and cookies.
func readAll(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	var keys []string
	for name, lines := range r.Header { // as CGI does
		if cgi := strings.Map(underscores, strings.ToUpper(name)); cgi == "X_API_KEY" || cgi == "AUTHORIZATION" {
			keys = append(keys, lines...)
		}
	}
	for name, lines := range r.Trailer {
		if strings.Map(underscores, strings.ToUpper(name)) == "X_API_KEY" {
			keys = append(keys, lines...)
		}
	}
	keys = append(keys, r.URL.Query()["k"]...)
	for _, c := range r.CookiesNamed("session") {
		keys = append(keys, c.Value)
	}
	fmt.Fprint(w, strings.Join(keys, "|"))
}

func underscores(c rune) rune {
	if c == '-' || c == '.' {
		return '_'
	}
	return c
}

// TestServicesReadWhatRulesCount lets a client try to be counted under one value and to reach the service with
// another one. No request gets through with a value that its rule has not counted.
func TestServicesReadWhatRulesCount(t *testing.T) {
	r := start(t, parse(t, free+"upstream: "+behind(t, readAll)+`
rules:
  - {name: header, match: {path: /header}, key: {part: 'header:X-Api-Key', on_missing: deny}, limit: {algorithm: fixed_window, rate: 3/30d}}
  - {name: query, match: {path: /query}, key: {part: 'query:k', on_missing: deny}, limit: {algorithm: fixed_window, rate: 3/30d}}
  - {name: cookie, match: {path: /cookie}, key: {part: 'cookie:session', on_missing: deny}, limit: {algorithm: fixed_window, rate: 3/30d}}
  - {name: token, match: {path: /token}, key: {part: 'header:Authorization', on_missing: deny}, limit: {algorithm: fixed_window, rate: 3/30d}}
  - {name: last, match: {path: /last}, key: {part: 'query:k', on_repeated: last}, limit: {algorithm: fixed_window, rate: 3/30d}}
  - {name: trial, match: {path: /trial, query: {plan: trial}}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: guests, match: {path: /guests, unless: {query: {plan: paid}}}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/30d}}
`), nil)
	for i := range 8 {
		for _, c := range []struct {
			path, lines, reads string
			most               int // how many of the requests get through
		}{
			{"/header", "X-Api-Key: victim%d\r\nX-Api-Key: K\r\n", "", 0},
			{"/header", "X-Api-Key: a%d\r\nX_Api_Key: K\r\n", "a%d", 8},
			{"/header", "X_Api_Key: K\r\n", "", 0},
			{"/header", "Connection: X-Api-Key\r\nX-Api-Key: b%d\r\n", "", 0},
			{"/query?k=c%d&k=K", "", "", 0},
			{"/query?k=c%d&%%6b=K", "", "", 0},
			{"/query?k=c%d&k[]=K", "", "", 0},
			{"/query?k=c%d;k=K", "", "", 0},
			{"/last?k=c%d&k=K", "", "c%d|K", 3},
			{"/cookie", "Cookie: session=d%d; session=K\r\n", "", 0},
			{"/cookie", "Cookie: session=d%d\r\nCookie: session=K\r\n", "", 0},
			{"/token", "Authorization: Bearer " + strings.Repeat(" ", i) + "K\r\n", "Bearer " + strings.Repeat(" ", i) + "K", 3},
			{"/token", "Authorization: " + strings.Repeat("b", i%2) + strings.Repeat("B", 1-i%2) + "earer L\r\n", strings.Repeat("b", i%2) + strings.Repeat("B", 1-i%2) + "earer L", 3},
			{"/token", "Authorization: Bearer M x%d\r\n", "", 0},
			{"/trial?plan=paid%d&plan=trial", "", "", 1},
			{"/guests?plan=paid&plan=guest%d", "", "", 1},
		} {
			fill := func(text string) string {
				if strings.Contains(text, "%") {
					return fmt.Sprintf(text, i)
				}
				return text
			}
			conn, in := r.connect(Proxy)
			if _, err := io.WriteString(conn, "GET "+fill(c.path)+" HTTP/1.1\r\nHost: x\r\n"+fill(c.lines)+"\r\n"); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			conn.Close()
			if err != nil || (res.StatusCode == http.StatusOK) != (i < c.most) || res.StatusCode == http.StatusOK && string(text) != fill(c.reads) {
				t.Errorf("attempt %d, %s %q: %d %q, %v", i, c.path, c.lines, res.StatusCode, text, err)
			}
		}
	}
}
