package proxy

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

func TestStreamsAsItComes(t *testing.T) {
	next := make(chan struct{})
	s := service(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "piece %d\n", i)
			w.(http.Flusher).Flush()
			await(t, next, "the client to read")
		}
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	c := dial(t, f.URL)
	c.send("GET /events HTTP/1.1", "Host: example.com", "")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 200 ") || !strings.Contains(h, "chunked") {
		t.Fatalf("header %q", h)
	}
	for i := range 3 {
		// The service sends the next piece only after the client has read this piece.
		if got, want := c.chunk(), fmt.Sprintf("piece %d\n", i); got != want {
			t.Errorf("piece %q, want %q", got, want)
		}
		next <- struct{}{}
	}
}

func TestStreamsAnswersOfAKnownLength(t *testing.T) {
	next := make(chan struct{})
	s := service(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "12")
		for _, piece := range []string{"first ", "second"} {
			fmt.Fprint(w, piece)
			w.(http.Flusher).Flush()
			await(t, next, "the client to read")
		}
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	c := dial(t, f.URL)
	c.send("GET / HTTP/1.1", "Host: example.com", "")
	if h := c.header(); !strings.Contains(h, "Content-Length: 12") {
		t.Errorf("header %q", h)
	}
	piece := make([]byte, 6)
	for _, want := range []string{"first ", "second"} {
		if _, err := io.ReadFull(c.in, piece); err != nil || string(piece) != want {
			t.Fatalf("the piece should arrive at once: %q, %v; want %q", piece, err, want)
		}
		next <- struct{}{}
	}
}

func TestStreamsTheBodyOfRequests(t *testing.T) {
	got := make(chan string)
	s := service(t, func(_ http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 64)
		for {
			n, err := r.Body.Read(piece)
			if n > 0 {
				got <- string(piece[:n])
			}
			if err != nil {
				close(got)
				return
			}
		}
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	c := dial(t, f.URL)
	c.send("POST / HTTP/1.1", "Host: example.com", "Transfer-Encoding: chunked", "")
	for _, piece := range []string{"one", "two", "three"} {
		c.send(fmt.Sprintf("%x", len(piece)), piece)
		if g := <-got; g != piece {
			t.Fatalf("the service got %q before the next piece was sent, want %q", g, piece)
		}
	}
	c.send("0", "")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 200 ") {
		t.Errorf("header %q", h)
	}
}

func TestPassesBothDirectionsAtOnce(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		piece := make([]byte, 64)
		for {
			n, err := r.Body.Read(piece)
			if n > 0 {
				_, _ = w.Write(piece[:n])
				_ = control.Flush()
			}
			if err != nil {
				return
			}
		}
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	c := dial(t, f.URL)
	c.send("POST / HTTP/1.1", "Host: example.com", "Transfer-Encoding: chunked", "")
	for i, piece := range []string{"one", "two", "three"} {
		c.send(fmt.Sprintf("%x", len(piece)), piece)
		if i == 0 {
			c.header()
		}
		if got := c.chunk(); got != piece {
			t.Fatalf("%q came back of %q, before the next piece was sent", got, piece)
		}
	}
	c.send("0", "")
	if got := c.chunk(); got != "" {
		t.Errorf("%q came back at the end", got)
	}
}

func TestLeavesBodiesAsTheyAre(t *testing.T) {
	large := make([]byte, 3<<20)
	_, _ = rand.Read(large)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 8<<20))
	_ = z.Close()

	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		// The response is the request's body, in the same encoding.
		w.Header().Set("Content-Encoding", r.Header.Get("Content-Encoding"))
		if n := r.ContentLength; n >= 0 {
			w.Header().Set("X-Length", fmt.Sprint(n))
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	for name, body := range map[string][]byte{"large": large, "gzip": bomb.Bytes()} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if name == "gzip" {
			r.Header.Set("Content-Encoding", "gzip")
		}
		res, text := do(t, client(t), r)
		if text != string(body) {
			t.Errorf("%s: %d bytes came back of %d", name, len(text), len(body))
		}
		if res.Header.Get("X-Length") != fmt.Sprint(len(body)) {
			t.Errorf("%s: the service got a length of %q", name, res.Header.Get("X-Length"))
		}
		if name == "gzip" && (res.Header.Get("Content-Encoding") != "gzip" || len(text) > 1<<20) {
			t.Errorf("a compressed body was inflated to %d bytes", len(text))
		}
	}
}

func TestRequestsNoCompressionOfItsOwn(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["Accept-Encoding"]) })
	f := front(t, s.URL, TransportOptions{}, nil)
	if _, text := get(t, client(t), f.URL, nil); text != "[]" {
		t.Errorf("the service got a request for %s", text)
	}
}

func TestPassesTrailersBothWays(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "request trailer %q", r.Trailer.Get("X-Checksum"))
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL, io.NopCloser(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Te", "trailers")
	r.Trailer = http.Header{"X-Checksum": {"abc"}}
	res, text := do(t, client(t), r)
	if text != `request trailer "abc"` {
		t.Errorf("response %s", text)
	}
	if res.Trailer.Get("X-Sum") != "42" || res.Trailer.Get("X-Late") != "unannounced" {
		t.Errorf("trailers %v", res.Trailer)
	}
}

func TestLetsTheServiceSendContinue(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusExpectationFailed) // without reading the body
			return
		}
		body, _ := io.ReadAll(r.Body) // which sends 100 Continue
		_, _ = w.Write(body)
	})
	f := front(t, s.URL, TransportOptions{}, nil)

	c := dial(t, f.URL)
	c.send("POST / HTTP/1.1", "Host: example.com", "Content-Length: 4", "Expect: 100-continue", "")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 100 ") {
		t.Fatalf("header %q before the body", h)
	}
	c.send("body")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 200 ") {
		t.Errorf("header %q after the body", h)
	}

	c = dial(t, f.URL)
	c.send("POST /refuse HTTP/1.1", "Host: example.com", "Content-Length: 4", "Expect: 100-continue", "")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 417 ") {
		t.Errorf("header %q, though the service refuses before the body", h)
	}
}

func TestKeepsHeadersOutOfInterimAnswers(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Ratelimit", `"service";r=1;t=1`)
		w.WriteHeader(http.StatusOK)
	})
	p := handler(t, s.URL, TransportOptions{}, nil)
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Ratelimit", `"ours";r=4;t=2`)
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	c := dial(t, f.URL)
	c.send("GET / HTTP/1.1", "Host: example.com", "")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 103 ") || !strings.Contains(h, "preload") || strings.Contains(h, "ours") {
		t.Errorf("interim response %q", h)
	}
	h := c.header()
	if !strings.HasPrefix(h, "HTTP/1.1 200 ") || !strings.Contains(h, `"ours"`) || !strings.Contains(h, `"service"`) {
		t.Errorf("final response %q lacks a header of the service or the proxy", h)
	}
}

func TestUpgradesToWebSocket(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, append([]byte("echo "), message...)); err != nil {
				return
			}
		}
	})
	p := handler(t, s.URL, TransportOptions{}, nil)
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Ratelimit", `"ours";r=4;t=2`)
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	c, res, err := websocket.Dial(t.Context(), f.URL, &websocket.DialOptions{HTTPClient: client(t)}) //nolint:bodyclose // the connection takes it over
	if err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("Ratelimit") == "" {
		t.Error("the response to the upgrade lacks the proxy's header")
	}
	for _, message := range []string{"one", "two"} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		_, got, err := c.Read(t.Context())
		if err != nil || string(got) != "echo "+message {
			t.Fatalf("the echo of %[3]s is %[1]q, %[2]v", got, err, message)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
}

func TestPassesPathsAndQueriesAsTheyWere(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	f := front(t, s.URL, TransportOptions{}, nil)
	base := front(t, s.URL+"/base", TransportOptions{}, nil)
	for _, target := range []string{"/", "/a%2Fb/../c//d/", "/?a;b&c=%zz&d=1", "/%E2%82%AC?q=%20+"} {
		c := dial(t, f.URL)
		c.send("GET "+target+" HTTP/1.1", "Host: example.com", "Connection: close", "")
		c.header()
		body, err := io.ReadAll(c.in)
		if err != nil || string(body) != target {
			t.Errorf("the service saw %q of %q (%v)", body, target, err)
		}
	}
	if _, text := get(t, client(t), base.URL+"/x?y=z", nil); text != "/base/x?y=z" {
		t.Errorf("under a base path the service saw %q", text)
	}
}

// A target that begins with two slashes is a host and a path to services that resolve it as a URL: to
// them, //x/admin is /admin. They get one slash.
func TestPassesOneSlashAtTheBeginning(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	for _, c := range []struct{ base, target, want string }{
		{"", "//x/admin", "/x/admin"},
		{"", "///x//admin?a=//b", "/x//admin?a=//b"},
		{"", "//x%2Fy//", "/x%2Fy//"},
		{"", "/%2Fx/admin", "/%2Fx/admin"},
		{"", "//%2F/x", "/%2F/x"},
		{"", "//", "/"},
		{"", "http://example.com//x/admin", "/x/admin"},
		{"/", "//x/admin", "/x/admin"},
		{"/base", "//x", "/base/x"},
		{"/base/", "//x/%2F", "/base/x/%2F"},
	} {
		f := front(t, s.URL+c.base, TransportOptions{}, nil)
		conn := dial(t, f.URL)
		conn.send("GET "+c.target+" HTTP/1.1", "Host: example.com", "Connection: close", "")
		conn.header()
		body, err := io.ReadAll(conn.in)
		if err != nil || string(body) != c.want {
			t.Errorf("before %q the service saw %q of %q, want %q (%v)", c.base, body, c.target, c.want, err)
		}
	}
}
