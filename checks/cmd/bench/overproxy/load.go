package overproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
)

// The requests: most requests of a service, and a request that sluice does not carry on the direct path.
var (
	get    = []byte("GET /api/items?page=2 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	upload = []byte("POST /api/items HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
)

// load is requests over some connections for a time. A connection makes the next request when it has the last answer,
// or at its time if there is a rate.
type load struct {
	address string
	request []byte
	length  time.Duration
	rate    int // requests a second, of all connections; zero for as many as there can be
}

// result is what a load has measured.
type result struct {
	requests  int64
	took      time.Duration
	latencies figures.Latencies // since the time at which the request should have been made
}

func (l *load) run() (*result, error) {
	var all sync.WaitGroup
	each := make([]result, connections)
	errs := make([]error, connections)
	began := time.Now()
	for i := range connections {
		all.Go(func() { errs[i] = l.client(i, began, &each[i]) })
	}
	all.Wait()
	sum := &result{took: time.Since(began)}
	for i := range each {
		sum.requests += each[i].requests
		sum.latencies.Merge(&each[i].latencies)
	}
	return sum, errors.Join(errs...)
}

// client is one of the connections.
func (l *load) client(number int, began time.Time, r *result) error {
	c, err := net.Dial("tcp", l.address) //nolint:noctx // it lasts as long as the load
	if err != nil {
		return err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	due := began
	var gap time.Duration
	if l.rate > 0 {
		gap = time.Second * connections / time.Duration(l.rate)
		due = began.Add(gap * time.Duration(number) / connections)
	}
	for {
		now := time.Now()
		if l.rate == 0 {
			due = now
		} else if wait := due.Sub(now); wait > 0 {
			time.Sleep(wait) //nolint:forbidigo // the load has a real rate
		}
		if due.Sub(began) >= l.length {
			return nil
		}
		if err := exchange(c, in, l.request); err != nil {
			return err
		}
		r.requests++
		r.latencies.Add(time.Since(due))
		due = due.Add(gap)
	}
}

var errAnswer = errors.New("the proxy did not answer 200 with a length")

// exchange makes one request, and reads its answer with as little work as possible.
func exchange(c net.Conn, in *bufio.Reader, request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	length := -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			return fmt.Errorf("%w but %q", errAnswer, line)
		}
		if len(line) == 0 {
			break
		}
		const name = "content-length: "
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			if length, err = strconv.Atoi(string(line[len(name):])); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errAnswer
	}
	_, err := in.Discard(length)
	return err
}

// hold opens connections that have made one request, and then do nothing.
func hold(address string, n int) ([]net.Conn, error) {
	conns := make([]net.Conn, 0, n)
	for range n {
		c, err := net.Dial("tcp", address) //nolint:noctx // the caller closes it
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
		if err := exchange(c, bufio.NewReaderSize(c, 1<<10), get); err != nil {
			return conns, err
		}
	}
	return conns, nil
}
