package app

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestRequestsUnderWayEndBeforeTheServerDoes(t *testing.T) {
	t.Parallel()
	inside, leave := make(chan struct{}), make(chan struct{})
	r := start(t, parse(t, free+"upstream: "+behind(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/slow" {
			return
		}
		fmt.Fprintln(w, "begin")
		w.(http.Flusher).Flush()
		inside <- struct{}{}
		<-leave
		fmt.Fprintln(w, "end")
	})+roomy), nil)
	got := make(chan string, 1)
	go func() {
		defer close(got)
		_, text := r.send(Proxy, http.MethodGet, "/slow", "")
		got <- text
	}()
	<-inside
	r.stop()
	eventually(t, "the answer that the server drains", func() bool {
		res, text := r.send(Admin, http.MethodGet, "/readyz", "")
		return res.StatusCode == http.StatusServiceUnavailable && strings.Contains(text, "draining")
	})
	if got := r.status(Admin, "/livez"); got != http.StatusOK {
		t.Errorf("/livez answers %d", got)
	}
	eventually(t, "the end of the proxy's listener", func() bool {
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(r.URL(Proxy))
		if err == nil {
			res.Body.Close()
		}
		return err != nil
	})
	select {
	case <-r.ended:
		t.Fatal("the server ended before its request")
	default:
	}
	close(leave)
	if text := <-got; text != "begin\nend\n" {
		t.Errorf("the request got %q", text)
	}
	r.end()
	if r.err != nil {
		t.Errorf("the server ended with an error: %v", r.err)
	}
}

func TestADrainTakesNoLongerThanItMay(t *testing.T) {
	r := start(t, parse(t, free+"drain_timeout: 100ms\nupstream: "+behind(t, func(_ http.ResponseWriter, q *http.Request) {
		<-q.Context().Done()
	})+roomy), nil)
	c, in := r.connect(Proxy)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	eventually(t, "the request", func() bool { return r.figure(`sluice_decisions_total{outcome="allowed",rule="one"}`) == "1" })
	began := time.Now()
	r.end()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the drain took %v", took)
	}
	if r.err == nil || !strings.Contains(r.err.Error(), "drain_timeout") {
		t.Errorf("the error is %v", r.err)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the request that was cut off got an answer")
	}
}

func TestUpgradedConnectionsAreWaitedFor(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"upstream: "+behind(t, func(w http.ResponseWriter, q *http.Request) {
		c, err := websocket.Accept(w, q, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			kind, message, err := c.Read(q.Context())
			if err != nil {
				return
			}
			_ = c.Write(q.Context(), kind, message)
		}
	})+roomy), nil)
	c, res, err := websocket.Dial(t.Context(), r.URL(Proxy), &websocket.DialOptions{HTTPClient: r.client}) //nolint:bodyclose // the connection takes it over
	if err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("RateLimit") == "" {
		t.Error("the answer to the upgrade has no limit")
	}
	r.stop()
	eventually(t, "the drain", func() bool { return r.Ready() != nil })
	for range 3 {
		if err := c.Write(t.Context(), websocket.MessageText, []byte("still here")); err != nil {
			t.Fatal(err)
		}
		if _, message, err := c.Read(t.Context()); err != nil || string(message) != "still here" {
			t.Fatalf("the upgraded connection brought %q, %v; want still here", message, err)
		}
	}
	select {
	case <-r.ended:
		t.Error("the server ended before its connection")
	default:
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	r.end()
	if r.err != nil {
		t.Errorf("the server ended with an error: %v", r.err)
	}
}

func TestAnswersCloseConnectionsWhileDraining(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+roomy), func(o *Options) { o.Linger = patience })
	c, in := r.connect(Proxy)
	closes := func() bool {
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res.Close
	}
	if closes() {
		t.Error("the connection is closed after the first request")
	}
	r.stop()
	<-r.servers.All()[0].Served()
	// No more connections are taken. This one is idle, and the request that it sends
	// now is not lost.
	if !closes() {
		t.Error("the answer does not close the connection")
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stays open: %v", err)
	}
	// Nobody is left, so the server ends long before its patience does.
	r.end()
	if r.err != nil {
		t.Errorf("the server ended with an error: %v", r.err)
	}
}

// For the delay of its drain, a server reports that it is not ready, and still answers new connections. The delay is the one of
// the last reload.
func TestALeavingServerStillAnswers(t *testing.T) {
	r := reloading(t, free+roomy)
	r.write(free + "drain: {delay: 1s}\n" + roomy)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.stop()
	eventually(t, "the answer that the server drains", func() bool {
		res, text := r.send(Admin, http.MethodGet, "/readyz", "")
		return res.StatusCode == http.StatusServiceUnavailable && strings.Contains(text, "draining")
	})
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := fresh.Get(r.URL(Proxy))
	if err != nil {
		t.Fatalf("a connection within the delay: %v", err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("a request within the delay gets %d", res.StatusCode)
	}
	eventually(t, "the end of the proxy's listener", func() bool {
		res, err := fresh.Get(r.URL(Proxy))
		if err == nil {
			res.Body.Close()
		}
		return err != nil
	})
	r.end()
	if r.err != nil {
		t.Errorf("the server ended with an error: %v", r.err)
	}
}
