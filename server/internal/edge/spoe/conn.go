package spoe

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/server/internal/listen/stream"
)

// conn is a connection of HAProxy. One goroutine reads; answers are written by the goroutines that decide.
type conn struct {
	server *Server
	net    *stream.Conn

	in       []byte // what has arrived and is not read yet is in[r:w]
	r, w     int
	begun    time.Time // when the first part of an incomplete frame arrived
	greeted  bool
	hello    hello
	fragment *fragment

	deciding sync.WaitGroup

	mu      sync.Mutex
	drained *sync.Cond // signals that answers were written
	out     []byte     // answers that nobody writes yet
	spare   []byte
	writing bool
	lost    bool // HAProxy is gone
}

// fragment has the parts that have arrived of a message in several frames.
type fragment struct {
	stream, frame uint64
	payload       []byte
	began         time.Time
}

// usualRead is the size of a connection's buffer. It grows for the frames that HAProxy has announced.
const usualRead = 16<<10 + 4

func (s *Server) open(c *stream.Conn) *conn {
	opened := &conn{server: s, net: c, in: make([]byte, usualRead), hello: hello{size: mostFrame}}
	opened.drained = sync.NewCond(&opened.mu)
	return opened
}

var (
	errStranger = errors.New("a connection comes from a peer that is not in trusted_proxies")
	// errEnd ends a connection without a message.
	errEnd = errors.New("end")
	normal = &disconnection{statusNormal, "normal"}
)

// Run reads frames until the connection ends, and sends HAProxy the reason.
func (c *conn) Run() (unread bool) {
	if !c.server.o.Trusts(addressOf(c.net)) {
		c.server.o.Decider.Unusable(errStranger.Error())
		return false
	}
	why := normal
	err := c.serve()
	if errors.As(err, &why) && why != normal {
		c.server.o.Decider.Unusable("HAProxy sent what is not SPOP: " + why.Error())
	}
	c.deciding.Wait()
	if errors.Is(err, errEnd) {
		return true
	}
	c.write(func(b []byte) []byte { return appendDisconnect(b, why) })
	return true
}

// addressOf returns the address of the other side.
func addressOf(c net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// serve answers frames. The error is a *disconnection, or errEnd for a connection that ends without a message.
func (c *conn) serve() error {
	for {
		b, err := c.next()
		if err != nil {
			return err
		}
		f, err := readFrame(b)
		if err != nil {
			return err
		}
		if err := c.take(&f); err != nil {
			return err
		}
	}
}

// next returns the next frame without its length. The result is valid until the next call.
func (c *conn) next() ([]byte, error) {
	for {
		if c.w-c.r >= 4 {
			size := binary.BigEndian.Uint32(c.in[c.r:])
			if size > c.hello.size {
				return nil, broken(statusTooBig, "a frame has %d bytes, more than %d", size, c.hello.size)
			}
			if c.w-c.r >= 4+int(size) {
				b := c.in[c.r+4 : c.r+4+int(size)]
				c.r += 4 + int(size)
				c.begun = time.Time{}
				return b, nil
			}
			c.room(4 + int(size))
		}
		if !c.read() {
			if c.net.Draining() {
				return nil, normal
			}
			return nil, errEnd
		}
	}
}

// room makes room for a frame in the buffer.
func (c *conn) room(size int) {
	if c.r+size <= len(c.in) {
		return
	}
	to := c.in
	if size > len(to) {
		to = make([]byte, size)
	}
	c.w = copy(to, c.in[c.r:c.w])
	c.in, c.r = to, 0
}

// read waits for more bytes. It reports false if HAProxy has left, or took too long.
func (c *conn) read() bool {
	if c.r == c.w {
		c.r, c.w = 0, 0
	} else if c.w == len(c.in) {
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	now, o := time.Now(), &c.server.o
	until := now.Add(o.Idle)
	// A hello, a frame and a fragmented message must arrive within Read, whatever parts they come in.
	if (c.w > c.r || !c.greeted) && c.begun.IsZero() {
		c.begun = now
	}
	switch {
	case c.fragment != nil:
		until = c.fragment.began.Add(o.Read)
	case !c.begun.IsZero():
		until = c.begun.Add(o.Read)
	}
	if c.net.SetReadDeadline(until) != nil {
		return false
	}
	n, err := c.net.Read(c.in[c.w:])
	c.w += n
	return n > 0 || err == nil
}

// take answers one frame.
func (c *conn) take(f *frame) error {
	switch {
	case f.kind == frameHaproxyHello && !c.greeted:
		return c.greet(f)
	case f.kind == frameHaproxyDisconnect:
		return normal
	case !c.greeted:
		return broken(statusInvalid, "the first frame is not a hello")
	case f.kind == frameNotify && c.fragment != nil:
		return broken(statusInterlaced, "a message begins within another")
	case f.kind == frameNotify && f.flags&flagFin != 0:
		c.notify(f.stream, f.frame, f.payload)
		return nil
	case f.kind == frameNotify:
		c.fragment = &fragment{f.stream, f.frame, append([]byte(nil), f.payload...), time.Now()}
		return nil
	case f.kind == frameRest:
		return c.join(f)
	default:
		return broken(statusInvalid, "a frame of type %d is not expected", f.kind)
	}
}

// greet answers a hello.
func (c *conn) greet(f *frame) (err error) {
	if f.flags&flagFin == 0 {
		return broken(statusInvalid, "the hello is fragmented")
	}
	if c.hello, err = readHello(f.payload); err != nil {
		return err
	}
	c.greeted = true
	c.write(func(b []byte) []byte { return appendHello(b, &c.hello) })
	if c.hello.healthcheck {
		return errEnd
	}
	return nil
}

// join adds a part of a fragmented message.
func (c *conn) join(f *frame) error {
	part := c.fragment
	switch {
	case part == nil:
		return broken(statusUnknownFragment, "a part belongs to no message")
	case part.stream != f.stream || part.frame != f.frame:
		return broken(statusInterlaced, "a part belongs to another message")
	case f.flags&flagAbort != 0:
		c.fragment = nil // HAProxy does not wait for an answer
		return nil
	case len(part.payload)+len(f.payload) > mostPayload:
		return broken(statusTooBig, "a message has more than %d bytes", mostPayload)
	}
	part.payload = append(part.payload, f.payload...)
	if f.flags&flagFin != 0 {
		c.fragment = nil
		c.notify(part.stream, part.frame, part.payload)
	}
	return nil
}

// notify answers a message. If HAProxy takes answers in any order, the next message is read meanwhile.
func (c *conn) notify(stream, id uint64, payload []byte) {
	q, problem := readMessage(payload)
	if problem != "" {
		c.server.o.Decider.Unusable(problem)
		c.write(func(b []byte) []byte {
			a := newAnswer(b, stream, id, c.hello.size)
			a.unusable(problem)
			return a.end()
		})
		return
	}
	c.awaitReader()
	c.server.deciding <- struct{}{}
	if !c.hello.pipelining {
		c.answer(stream, id, &q)
		return
	}
	c.deciding.Add(1)
	go func() {
		defer c.deciding.Done()
		c.answer(stream, id, &q)
	}()
}

// mostPending bounds the answers that HAProxy has not read, in bytes.
const mostPending = 256 << 10

// awaitReader waits while HAProxy does not read its answers.
func (c *conn) awaitReader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > mostPending && !c.lost {
		c.drained.Wait()
	}
}

// answer decides and answers.
func (c *conn) answer(stream, id uint64, q *httplimit.Report) {
	d := c.server.o.Decider
	r, v, denied := d.Admit(c.server.o.Context, q, func() { <-c.server.deciding })
	a := newAnswer(nil, stream, id, c.hello.size)
	a.verdict(d, r, v, denied)
	b := a.end()
	c.write(func(out []byte) []byte { return append(out, b...) })
}

// write appends to the answers, and sends them unless another goroutine does.
func (c *conn) write(add func([]byte) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost {
		return
	}
	c.out = add(c.out)
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.lost {
		b := c.out
		c.out, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		err := c.net.SetWriteDeadline(time.Now().Add(c.server.o.Write))
		if err == nil {
			_, err = c.net.Write(b)
		}
		c.mu.Lock()
		if c.lost = err != nil; c.lost {
			_ = c.net.Close() // the reader ends too
		}
		c.drained.Broadcast()
		if cap(b) <= 2*usualRead {
			c.spare = b
		}
	}
	c.writing = false
}
