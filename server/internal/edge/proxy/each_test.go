package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestEachAnswerIsOfItsRequest sends requests of all kinds at once, through few connections. Clients leave at any time,
// and the service closes, delays, breaks off and adds bytes. Each answer carries the number of its own request. With
// SLUICE_SOAK it takes a minute on each path.
func TestEachAnswerIsOfItsRequest(t *testing.T) {
	lasts := 700 * time.Millisecond
	if os.Getenv("SLUICE_SOAK") != "" {
		lasts = time.Minute
	}
	s := script(t, whimsical)
	f := front(t, s.url, TransportOptions{MaxConnections: 6, MaxIdle: 4}, nil)
	began := time.Now()
	var number, whole, ended atomic.Int64
	// A busy machine gets as much time as the least number of answers needs.
	goes := func() bool {
		took := time.Since(began)
		return took < lasts || whole.Load() < leastAnswers && took < time.Minute
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			cl := client(t)
			for goes() && !t.Failed() {
				id := fmt.Sprint(number.Add(1))
				switch err := exchangeOnce(t.Context(), cl, f.URL, id); {
				case err == nil:
					whole.Add(1)
				case strings.HasPrefix(err.Error(), "wrong"):
					t.Errorf("request %s: %v", id, err)
				default:
					ended.Add(1)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d whole answers, %d that ended early, %d connections", whole.Load(), ended.Load(), s.accepted.Load())
	if whole.Load() < leastAnswers || s.accepted.Load() >= whole.Load() {
		t.Error("too few answers, or no connection was kept")
	}
}

// leastAnswers is how many whole answers the test gets at least.
const leastAnswers = 50

// exchangeOnce sends one request, and may leave before the answer ends. An error that begins with "wrong" means that
// the answer was of another request.
func exchangeOnce(ctx context.Context, c *http.Client, target, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if rand.IntN(5) == 0 {
		timer := time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
		defer timer.Stop()
	}
	method, body := http.MethodGet, io.Reader(nil)
	switch rand.IntN(8) {
	case 0:
		method = http.MethodHead
	case 1:
		method, body = http.MethodPost, strings.NewReader("body of "+id)
	case 2:
		method, body = http.MethodPut, io.NopCloser(strings.NewReader("body of "+id)) // in chunks
	}
	r, err := http.NewRequestWithContext(ctx, method, target+"/"+id, body)
	if err != nil {
		return err
	}
	res, err := c.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if res.StatusCode >= http.StatusBadGateway {
		return fmt.Errorf("no answer: %s", res.Status)
	}
	if got := res.Header.Get("X-Id"); got != id {
		return fmt.Errorf("wrong answer: %s of %q", res.Status, got)
	}
	for _, got := range strings.Fields(string(text)) {
		if len(got) == len(id) && got != id || len(got) > len(id) {
			return fmt.Errorf("wrong body: %q", got)
		}
	}
	return err
}

// whimsical answers each request with its number, in one of many ways.
func whimsical(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
	for r := s.request(in); r != nil; r = s.request(in) {
		id := strings.TrimPrefix(r.URL.Path, "/")
		text := strings.Repeat(id+" ", 1+rand.IntN(3000))
		head := "HTTP/1.1 200 OK\r\nX-Id: " + id + "\r\n"
		var answer string
		switch rand.IntN(6) {
		case 0:
			answer = head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(text), text)
			if r.Method == http.MethodHead {
				answer = head + "Transfer-Encoding: chunked\r\n\r\n"
			}
		case 1:
			answer = "HTTP/1.1 204 No Content\r\nX-Id: " + id + "\r\n\r\n"
		case 2:
			answer = "HTTP/1.1 103 Early Hints\r\nX-Id: hint\r\n\r\n" + head + "Content-Length: 0\r\n\r\n"
		default:
			answer = head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(text)) + text
			if r.Method == http.MethodHead {
				answer = strings.TrimSuffix(answer, text)
			}
		}
		ends, beyond := false, "" // beyond arrives with the end of the answer: bytes on their way may be taken for the next answer
		switch rand.IntN(24) {
		case 0:
			answer, ends = answer[:rand.IntN(len(answer)+1)], true
		case 1:
			ends = true
		case 2:
			if len(answer) < 2<<10 && !noDirect { // one packet; package http takes some for answers
				beyond = "HTTP/1.1 200 OK\r\nX-Id: stray\r\nContent-Length: 5\r\n\r\nstray"
			}
		case 3:
			timer := time.NewTimer(time.Duration(rand.IntN(2000)) * time.Microsecond)
			<-timer.C
		}
		for len(answer) > 0 {
			n := min(len(answer), 1+rand.IntN(20000))
			if beyond != "" {
				n = len(answer)
			}
			piece := answer[:n]
			if answer = answer[n:]; answer == "" {
				piece += beyond
			}
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
		}
		if ends {
			return
		}
	}
}
