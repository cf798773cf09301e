package overdoors

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/sluicehq/sluice/bench/load"
	"github.com/sluicehq/sluice/bench/process"
)

const spoeDoor = "spoe"

// The rows of HAProxy.
const (
	haproxyAlone = "HAProxy without a limit"
	haproxyLimit = "HAProxy, stick table"
	haproxySPOE  = "HAProxy, SPOE, sluice"
	agentName    = "SPOE agent"
)

// spoeRows are the rows of HAProxy.
func spoeRows() []row {
	plain := overHTTP(plainCall)
	return []row{
		{door: spoeDoor, name: agentName, server: spoeServer, units: 1, connect: newSPOP},
		{door: spoeDoor, name: haproxyAlone, server: haproxyAlone, units: 1, floor: true, connect: plain},
		{door: spoeDoor, name: haproxyLimit, server: haproxyLimit, without: haproxyAlone, units: 1, connect: plain},
		{door: spoeDoor, name: haproxySPOE, server: haproxySPOE, behind: []string{spoeServer}, without: haproxyAlone, units: 1, connect: plain},
	}
}

// stickTable is how HAProxy limits by itself.
const stickTable = `    stick-table type ip size 100k expire 60s store http_req_rate(10s)
    http-request track-sc0 src
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 2000000000 }
`

// haproxy returns the command of a HAProxy before the bare handler, with the files of examples/haproxy-spoe.
func (b *bench) haproxy(name, address string) ([]string, error) {
	program, err := process.Locate("haproxy", "haproxy")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// A busy machine answers later than a gateway should wait.
	engine, err := example("haproxy-spoe/sluice-spoe.conf", "timeout processing 100ms", "timeout processing 10s", "timeout hello 100ms", "timeout hello 5s")
	if err != nil {
		return nil, err
	}
	agent, err := put(b.work, "spoe"+port+".conf", engine)
	if err != nil {
		return nil, err
	}
	answers, err := example("haproxy-spoe/sluice.lua")
	if err != nil {
		return nil, err
	}
	lua, err := put(b.work, "spoe"+port+".lua", answers)
	if err != nil {
		return nil, err
	}
	const bind = "    bind 127.0.0.1:8000\n"
	text, err := example(
		"haproxy-spoe/haproxy.cfg", bind, strings.Replace(bind, "8000", port, 1), "127.0.0.1:3000", b.servers[bareServer].Address,
		"127.0.0.1:8084", b.servers[spoeServer].Address, "sluice-spoe.conf", agent, "sluice.lua", lua, "timeout connect 100ms", "timeout connect 5s",
	)
	if err != nil {
		return nil, err
	}
	if name != haproxySPOE {
		text, _, _ = strings.Cut(text, "\nbackend sluice\n")
		var lines strings.Builder
		for line := range strings.Lines(text) {
			switch word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word {
			case "filter", "acl", "http-request", "http-after-response":
			case "bind":
				lines.WriteString(line)
				if name == haproxyLimit {
					lines.WriteString(stickTable)
				}
			default:
				lines.WriteString(line)
			}
		}
		text = lines.String()
	}
	path, err := put(b.work, "haproxy"+port+".cfg", text)
	return []string{program, "-db", "-q", "-f", path}, err
}

// The frames of SPOP 2.0 that HAProxy sends, without their length. Every number below 240 is one byte.
const (
	helloFrame = "\x01" + "\x00\x00\x00\x01" + "\x00\x00" + // type, flags, stream and frame
		"\x12supported-versions\x08\x032.0" + "\x0emax-frame-size\x03\xfc\xf0\x06" /* 16380 */ + "\x0ccapabilities\x08\x10pipelining,async"
	notifyHead    = "\x03" + "\x00\x00\x00\x01"
	notifyPayload = "\x07request" + "\x04" + "\x06method\x08\x03GET" + "\x06target\x08\x06/api/x" + "\x03src\x06\xc0\x00\x02\x01" +
		"\x07headers\x09\x17" + "\x04host\x0fwww.example.com" + "\x00\x00"
	ackType = 103
	// allowed is the first action of an answer to a request that may pass: a variable of the transaction is set to true.
	allowed = "\x01\x03\x02\x07allowed\x11"
)

// spop makes calls as HAProxy does: over a few connections, each with calls of several streams on their way at once.
type spop struct {
	conns [channels]*spopConn
}

// spopConn is a connection. One goroutine reads all answers.
type spopConn struct {
	net.Conn
	writing sync.Mutex
	answers [callers]chan error // by stream
	ended   chan struct{}
	err     error // valid when ended is closed
}

func newSPOP(address string) (load.Client, error) {
	s := &spop{}
	for i := range s.conns {
		c, err := dialSPOP(address)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.conns[i] = c
	}
	return s, nil
}

// framed returns a frame with its length.
func framed(frame string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

func dialSPOP(address string) (*spopConn, error) {
	dialed, err := net.Dial("tcp", address) //nolint:noctx // the client closes it
	if err != nil {
		return nil, err
	}
	c := &spopConn{Conn: dialed, ended: make(chan struct{})}
	for i := range c.answers {
		c.answers[i] = make(chan error, 1)
	}
	in := bufio.NewReader(c)
	if _, err = c.Write(framed(helloFrame)); err == nil {
		_, err = readFrame(in)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go func() {
		c.err = c.read(in)
		close(c.ended)
	}()
	return c, nil
}

// readFrame reads a frame. The result is valid until the next call.
func readFrame(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	frame, err := in.Peek(4 + int(binary.BigEndian.Uint32(head)))
	if err != nil {
		return nil, err
	}
	_, err = in.Discard(len(frame))
	return frame[4:], err
}

// read gives the answers to their callers.
func (c *spopConn) read(in *bufio.Reader) error {
	const stream, payload = 5, 7
	for {
		frame, err := readFrame(in)
		switch {
		case err != nil:
			return err
		case len(frame) < payload || frame[0] != ackType || int(frame[stream]) >= len(c.answers):
			return fmt.Errorf("%w: %q", errNotAllowed, frame)
		case strings.HasPrefix(string(frame[payload:]), allowed):
			c.answers[frame[stream]] <- nil
		default:
			c.answers[frame[stream]] <- errNotAllowed
		}
	}
}

// Caller returns the function of one caller, which has a stream of its own.
func (s *spop) Caller(i int) (call func() error) {
	c := s.conns[i%len(s.conns)]
	request := framed(notifyHead + string([]byte{byte(i), 1}) + notifyPayload)
	return func() error {
		c.writing.Lock()
		_, err := c.Write(request)
		c.writing.Unlock()
		if err != nil {
			return err
		}
		select {
		case err := <-c.answers[i]:
			return err
		case <-c.ended:
			return errors.Join(io.ErrUnexpectedEOF, c.err)
		}
	}
}

// Close closes the connections.
func (s *spop) Close() {
	for _, c := range s.conns {
		if c != nil {
			_ = c.Close() // nothing is under way
			<-c.ended
		}
	}
}
