package overdoors

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/floor"
)

const (
	respDoor = "resp"
	// respServer is sluice for clients of Redis, and scriptServer a Redis that runs scripts.
	respServer, scriptServer = "resp", "scripts"
	// pipeline is the number of commands in a large call.
	pipeline = 32
	// respKeys are the keys that are limited.
	respKeys = 10_000
)

// respConfig is for clients of Redis. The verb is the address.
const respConfig = `version: 1
listen: {proxy: "off", api: "off", admin: "off", resp: '%s'}
rules: [{name: other, key: client_ip, limit: {algorithm: token_bucket, rate: 1000/s}}]
`

// respKind is a command to a server.
type respKind struct {
	name, server string
	lines        int // of a reply
	words        func(digest, key string) []string
}

// respKinds are the commands that are compared. All limit a key, with numbers that never deny, except for PING.
var respKinds = []respKind{
	{"CL.THROTTLE", respServer, 6, func(_, key string) []string {
		return []string{"CL.THROTTLE", key, "1000000", "1000000", "1"}
	}},
	{"PING of sluice", respServer, 1, func(string, string) []string { return []string{"PING"} }},
	{"EVALSHA of a minimal script on Redis", scriptServer, 5, func(digest, key string) []string {
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
			all = append(all, row{door: respDoor, name: respName(k, n), server: k.server, decisions: n, connect: func(address string) (load, error) {
				return newRESPLoad(address, k, n)
			}})
		}
	}
	return all
}

// startRESP starts the servers for clients of Redis.
func (b *bench) startRESP(sluice string) error {
	if err := b.launch(respServer, func(address string) (string, []string, error) {
		file := filepath.Join(b.work, "resp.yaml")
		return sluice, []string{"serve", file}, os.WriteFile(file, fmt.Appendf(nil, respConfig, address), 0o600)
	}); err != nil {
		return err
	}
	return b.launch(scriptServer, func(address string) (string, []string, error) {
		_, port, err := net.SplitHostPort(address)
		return "redis-server", []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.work, "--logfile", os.DevNull}, err
	})
}

// respLoad makes calls with bytes that are made beforehand.
type respLoad struct {
	conns    []net.Conn
	requests [][]byte
	lines    int // of all replies to a call
}

func newRESPLoad(address string, k *respKind, commands int) (_ load, err error) {
	l := &respLoad{lines: k.lines * commands}
	defer func() {
		if err != nil {
			l.close()
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
	if k.server == scriptServer {
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

// caller returns the function of one caller, which has a connection of its own.
func (l *respLoad) caller(i int) func() error {
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

func (l *respLoad) close() {
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
