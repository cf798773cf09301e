package overapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The names of subjects.
const (
	getName   = "bare handler, GET"
	floorName = "bare handler, the same JSON"
	checkName = "/v1/check"
	smallName = "/v1/check, batch of 100"
	largeName = "/v1/check, batch of 1,000"
)

// subject is a call to one of the servers.
type subject struct {
	name      string
	server    string
	questions int    // in a call
	call      []byte // the whole request
}

func subjects() []subject {
	return []subject{
		{getName, bareServer, 0, []byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")},
		{floorName, bareServer, 1, post(question(1))},
		{checkName, sluiceServer, 1, post(question(1))},
		{smallName, sluiceServer, 100, post(batch(100))},
		{largeName, sluiceServer, 1000, post(batch(1000))},
	}
}

// question is a question about a client.
func question(client int) string {
	return fmt.Sprintf(`{"method":"GET","path":"/api/x","client_ip":"192.0.%d.%d"}`, client/256, client%256)
}

func batch(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = question(i)
	}
	return `{"requests":[` + strings.Join(all, ",") + `]}`
}

func post(body string) []byte {
	const head = "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	return fmt.Appendf(nil, head, len(body), body)
}

var errNotOK = errors.New("the server did not answer 200")

// do makes one call.
func do(c net.Conn, in *bufio.Reader, call []byte) error {
	if _, err := c.Write(call); err != nil {
		return err
	}
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%w but %s", errNotOK, res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// turn makes calls over all connections for a time. Each connection makes a call when it has the last answer.
func turn(address string, call []byte, length time.Duration) (calls int64, took time.Duration, err error) {
	var all sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, connections)
	began := time.Now()
	for i := range connections {
		all.Go(func() {
			c, err := net.Dial("tcp", address) //nolint:noctx // it lasts as long as the turn
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			for in := bufio.NewReader(c); errs[i] == nil && time.Since(began) < length; done.Add(1) {
				errs[i] = do(c, in, call)
			}
		})
	}
	all.Wait()
	return done.Load(), time.Since(began), errors.Join(errs...)
}
