package overdoors

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/floor"
	"github.com/sluicehq/sluice/bench/load"
)

const (
	respDoor = "resp"
	// pipeline is the number of commands in a large call.
	pipeline = 32
	// respKeys are the keys that are limited.
	respKeys = 10_000
)

// respKind is a command to a server.
type respKind struct {
	name, server string
	floor        bool
	lines        int // of a reply
	words        func(digest, key string) []string
}

// respKinds are the commands that are compared. All limit a key, with numbers that never deny, except for PING.
var respKinds = []respKind{
	{"CL.THROTTLE", respServer, false, 6, func(_, key string) []string {
		return []string{"CL.THROTTLE", key, "1000000", "1000000", "1"}
	}},
	{"PING of sluice", respServer, true, 1, func(string, string) []string { return []string{"PING"} }},
	{"EVALSHA of a minimal script on Redis", storeServer, false, 5, func(digest, key string) []string {
		return []string{"EVALSHA", digest, "1", key, "1", "1000000"}
	}},
}

// respName returns the name of a row.
func respName(k *respKind, commands int) string {
	if commands == 1 {
		return k.name
	}
	return fmt.Sprintf("%s, pipelined by %d", k.name, commands)
}

// respRows are the rows of clients of Redis.
func respRows() []row {
	var all []row
	for _, n := range []int{1, pipeline} {
		for i := range respKinds {
			k := &respKinds[i]
			all = append(all, row{door: respDoor, name: respName(k, n), server: k.server, units: n, floor: k.floor, connect: func(address string) (load.Client, error) {
				return newRESP(address, k, n)
			}})
		}
	}
	return all
}

// respCalls makes calls with bytes that are made beforehand.
type respCalls struct {
	conns    []net.Conn
	requests [][]byte
	lines    int // of all replies to a call
}

func newRESP(address string, k *respKind, commands int) (_ load.Client, err error) {
	l := &respCalls{lines: k.lines * commands}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	for range callers {
		c, err := net.Dial("tcp", address) //nolint:noctx // the load closes it
		if err != nil {
			return nil, err
		}
		l.conns = append(l.conns, c)
	}
	digest := ""
	if k.server == storeServer {
		if digest, err = loadScript(l.conns[0], floor.MinimalSource()); err != nil {
			return nil, err
		}
	}
	for key := 0; key < respKeys; key += commands {
		var b []byte
		for i := range commands {
			b = appendCommand(b, k.words(digest, "key:"+strconv.Itoa(key+i)))
		}
		l.requests = append(l.requests, b)
	}
	return l, nil
}

// appendCommand appends a command as clients send it.
func appendCommand(b []byte, words []string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

// loadScript loads a script into Redis, and returns its digest.
func loadScript(c net.Conn, script string) (string, error) {
	if _, err := c.Write(appendCommand(nil, []string{"SCRIPT", "LOAD", script})); err != nil {
		return "", err
	}
	buf := make([]byte, 256)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	n, err := c.Read(buf)
	if err != nil {
		return "", err
	}
	_, digest, ok := strings.Cut(string(buf[:n]), "\r\n")
	if digest = strings.TrimSpace(digest); !ok || len(digest) != 40 {
		return "", fmt.Errorf("a script is answered with %q", buf[:n])
	}
	return digest, c.SetReadDeadline(time.Time{})
}

var errReply = errors.New("a reply is an error")

// Caller returns the function of one caller, which has a connection of its own.
func (l *respCalls) Caller(i int) (call func() error) {
	c, next, buf := l.conns[i], i*7919, make([]byte, 16<<10)
	return func() error {
		next++
		if _, err := c.Write(l.requests[next%len(l.requests)]); err != nil {
			return err
		}
		for lines := 0; lines < l.lines; {
			n, err := c.Read(buf)
			if err != nil {
				return err
			}
			if buf[0] == '-' || bytes.Contains(buf[:n], []byte("\n-")) {
				return errReply
			}
			lines += bytes.Count(buf[:n], []byte{'\n'})
		}
		return nil
	}
}

// Close closes the connections.
func (l *respCalls) Close() {
	for _, c := range l.conns {
		_ = c.Close() // nothing is under way
	}
}

// judgeRESP compares the results with the bars of clients of Redis.
func judgeRESP(r figures.Results) []figures.Bar {
	throttle, ping, script := &respKinds[0], &respKinds[1], &respKinds[2]
	return []figures.Bar{
		atLeast(r, respName(throttle, pipeline), 1.5, respName(script, pipeline)),
		atLeast(r, respName(throttle, 1), 0.8, respName(ping, 1)),
	}
}
