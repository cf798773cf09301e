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
	t.Parallel()
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

// TestDecisionAPIReadsNamesAsTheProxy describes requests to the decision API in ways in which only some services read a
// value. The proxy refuses them, and so does the API.
func TestDecisionAPIReadsNamesAsTheProxy(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"upstream: echo\n"+`
rules:
  - {name: query, match: {path: /query}, key: 'query:k', limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: cookie, match: {path: /cookie}, key: 'cookie:session', limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: header, match: {path: /header}, key: 'header:X-K', limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: upgrade, match: {path: /upgrade}, key: '{header:Upgrade}/{header:X-K}', limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: host, match: {path: /host, if: 'header("Host") == "api.example.com"'}, key: global, limit: {algorithm: fixed_window, rate: 1/30d}}
`), nil)
	for i, c := range []struct{ path, values, line, cookie string }{
		{"/query", `"query": {"k": "a", "K": "b"}`, "k=a&K=b", ""},
		{"/query", `"query": {"k[]": "c"}`, "k[]=c", ""},
		{"/query", `"query": {"k[0]": "d"}`, "k[0]=d", ""},
		{"/query", `"query": {"K": "e"}`, "K=e", ""},
		{"/query", `"query": {" k": "f"}`, "+k=f", ""},
		{"/query", `"query": {"k\u0000x": "g"}`, "k%00x=g", ""},
		{"/query", `"query": {"k": ["h", "i"]}`, "k=h&k=i", ""},
		{"/cookie", `"cookies": {"session": "a", "SESSION": "b"}`, "", "session=a; SESSION=b"},
		{"/cookie", `"cookies": {"Session": "c"}`, "", "Session=c"},
		{"/cookie", `"cookies": {"session[]": "d"}`, "", "session[]=d"},
		{"/cookie", `"cookies": {"x": "1, session=e"}`, "", "x=1, session=e"},
		{"/cookie", `"headers": {"Cookie": "SESSION=f"}`, "", "SESSION=f"},
	} {
		header := []string{}
		if c.cookie != "" {
			header = []string{"Cookie", c.cookie}
		}
		if got, text := r.send(Proxy, http.MethodGet, c.path+"?"+c.line, "", header...); got.StatusCode != http.StatusBadRequest {
			t.Errorf("%d: the proxy answers %d %s to %s", i, got.StatusCode, text, c.values)
		}
		if _, text := r.send(API, http.MethodPost, "/v1/check", `{"path": "`+c.path+`", `+c.values+`}`); !strings.Contains(text, `"reason":"repeated-key"`) {
			t.Errorf("%d: the API answers %s to %s", i, text, c.values)
		}
	}
	for _, c := range []struct{ path, headers string }{ // only some gateways remove what Connection names
		{"/header", `{"X-K": "a", "Connection": "X-K"}`},
		{"/header", `{"x-k": "b", "connection": ["close", "keep-alive,\tX-k "]}`},
		{"/cookie", `{"Cookie": "session=g", "Connection": "cookie"}`},
	} {
		if _, text := r.send(API, http.MethodPost, "/v1/check", `{"path": "`+c.path+`", "headers": `+c.headers+`}`); !strings.Contains(text, `"reason":"repeated-key"`) {
			t.Errorf("the API answers %s to %s", text, c.headers)
		}
	}
	if _, text := r.send(API, http.MethodPost, "/v1/check", `{"path": "/upgrade", "headers": {"Upgrade": "a", "Connection": "Upgrade, X-K"}}`); !strings.Contains(text, `"allowed":true`) {
		t.Errorf("a header for one connection: %s", text)
	}
	for i, host := range []string{`"host": "api.example.com"`, `"host": "API.example.com.:80"`, `"headers": {"Host": "Api.example.com"}`, `"host": "api.example.com", "headers": {"Host": "API.example.com:443"}`} {
		if _, text := r.send(API, http.MethodPost, "/v1/check", `{"path": "/host", `+host+`}`); strings.Contains(text, `"allowed":true`) != (i == 0) {
			t.Errorf("%s is not the same key as the other spellings of the host: %s", host, text)
		}
	}
	for _, values := range []string{
		`"host": "api.example.com", "headers": {"Host": "other.example"}`, `"headers": {"Host": ["a.example", "b.example"]}`, `"headers": {"Host": "a b"}`,
		// What HTTP cannot carry.
		`"headers": {"X-Plan ": "a"}`, `"headers": {" X-Plan": "a"}`, `"headers": {"X-Plan[]": "a"}`, `"headers": {"X\u0000": "a"}`, `"headers": {"": "a"}`,
		`"headers": {"X-Plan": "a\u0000"}`, `"headers": {"X-Plan": ["b", "a\nb"]}`, `"cookies": {"plan\u0000x": "a"}`, `"cookies": {"plan": ["b", "a\r"]}`,
	} {
		if got, text := r.send(API, http.MethodPost, "/v1/check", `{"path": "/host", `+values+`}`); got.StatusCode != http.StatusBadRequest {
			t.Errorf("%s should be refused: %s", values, text)
		}
	}
}

// TestRemovedHeadersDecideNothing sends headers that the service behind the proxy does not get, to choose a key, to leave
// a rule and to get into a class. Rules count them as missing, but the headers of trusted proxies count.
func TestRemovedHeadersDecideNothing(t *testing.T) {
	t.Parallel()
	const text = `
classes: [{name: inside, match: {path: /class, header: {X-Forwarded-For: {present: true}}}, bypass: true}]
rules:
  - {name: key, match: {path: "/key/{name}"}, key: '{param:name}/{header:X-Real-IP}/{header:X-Forwarded-For}/{header:CF-Connecting-IP}/{header:Forwarded}/{header:Te}/{header:Keep-Alive}/{header:Proxy-Authorization}/{header:X-Forwarded-Host}', limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: match, match: {path: /match, unless: {header: {X-Real-IP: {present: true}}}}, key: global, limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: if, match: {path: /if, if: 'header("Forwarded") != "for=10.0.0.1"'}, key: global, limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: class, match: {path: /class}, key: global, limit: {algorithm: fixed_window, rate: 1/30d}}
  - {name: cost, match: {path: /cost}, key: global, cost: {source: header, header: X-Client-IP, max: 5}, limit: {algorithm: fixed_window, rate: 4/30d}}
`
	clients := start(t, parse(t, free+"upstream: echo\n"+text), nil)
	proxies := start(t, parse(t, free+"trusted_proxies: 127.0.0.1\nupstream: echo\n"+text), nil)
	for i, c := range []struct {
		path, name, value string
		proxied           bool // whether a trusted proxy's header counts
	}{
		{"/key/a", "X-Real-IP", "10.0.0.%d", true},
		{"/key/b", "X-Forwarded-For", "10.0.0.%d", true},
		{"/key/c", "CF-Connecting-IP", "10.0.0.%d", true},
		{"/key/d", "Forwarded", "for=10.0.0.%d", true},
		{"/key/e", "X-Forwarded-Host", "a%d.example", true},
		{"/key/f", "TE", "trailers;q=0.%d", false},
		{"/key/g", "Keep-Alive", "timeout=%d", false},
		{"/key/h", "Proxy-Authorization", "Bearer %d", false},
		{"/match", "X-Real-IP", "10.0.0.%d", true},
		{"/if", "Forwarded", "for=10.0.0.1", true},
		{"/class", "X-Forwarded-For", "10.0.0.%d", true},
	} {
		for n := 1; n <= 3; n++ {
			value := strings.ReplaceAll(c.value, "%d", fmt.Sprint(n))
			if got := clients.status(Proxy, c.path, c.name, value); (got == http.StatusOK) != (n == 1) {
				t.Errorf("case %d, request %d of a client with %s: %d", i, n, c.name, got)
			}
			if got := proxies.status(Proxy, c.path, c.name, value); (got == http.StatusOK) != (n == 1 || c.proxied) {
				t.Errorf("case %d, request %d of a proxy with %s: %d", i, n, c.name, got)
			}
		}
	}
	if got := clients.status(Proxy, "/cost", "X-Client-IP", "5"); got != http.StatusOK {
		t.Errorf("a client chooses its cost: %d", got)
	}
}
