package resp

import (
	"errors"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/pipeline"
	"github.com/sluicehq/sluice/server/internal/listen/stream"
)

// The sizes of a connection's buffers.
const (
	usualRead  = 8 << 10  // for a longer command, the buffer of commands grows up to commandBounds.bytes
	flushAt    = 16 << 10 // replies are sent from this size on, even if more commands have arrived
	usualWrite = 32 << 10 // a larger buffer of replies is not kept
)

// conn is a connection of a client. Only its goroutine uses it.
type conn struct {
	server *Server
	net    *stream.Conn
	id     int64

	in     []byte // what has arrived and is not answered yet is in[r:w]
	r, w   int
	begun  time.Time // when the first part of an incomplete command arrived
	args   [][]byte
	out    []byte // replies that are not sent yet
	ending bool   // the connection ends after these replies

	opened   time.Time
	version  int  // of the protocol, 2 or 3
	known    bool // the client may give commands
	failures int  // wrong tokens
	name     string

	store    sluice.Store       // decides
	pipeline *pipeline.Pipeline // nil if commands are decided one after another

	transaction *transaction // between MULTI and EXEC, or nil
	executing   bool         // EXEC carries out commands

	recent  *throttle // the limit that CL.THROTTLE used last
	verdict policy.Verdict
	results [1]policy.LimitResult

	readBy, writeBy time.Time // deadlines of the connection
}

func (s *Server) open(c *stream.Conn) *conn {
	made := &conn{
		server: s, net: c, id: s.ids.Add(1), opened: time.Now(), in: make([]byte, usualRead), version: 2, known: s.o.Verify == nil,
		store: s.o.Decider.Store(), pipeline: s.o.Pipelines.Begin(),
	}
	if made.pipeline != nil {
		made.store = made.pipeline
	}
	return made
}

// Run answers commands. Replies to commands that arrive together are sent together.
func (c *conn) Run() (unread bool) {
	defer func() {
		c.in, c.out = nil, nil
		c.end()
	}()
	for {
		c.answer()
		c.finish()
		if !c.flush() {
			return false
		}
		if c.ending {
			return true
		}
		if !c.read() {
			return c.net.Draining()
		}
	}
}

// answer answers all commands that have arrived.
func (c *conn) answer() {
	for !c.ending {
		most := commandBounds
		if !c.known {
			most = strangerBounds
		}
		command, err := parse(c.in[c.r:c.w], c.args[:0], most)
		if errors.Is(err, errIncomplete) {
			return
		}
		if err != nil {
			c.finish()
			c.fail("ERR " + err.Error())
			c.ending = true
			return
		}
		c.r += command.size
		c.begun = time.Time{}
		if len(command.args) > 0 {
			c.args = command.args
			c.do(&command)
		}
		if !c.relieve() {
			return
		}
	}
}

// relieve sends the replies if they are many: a client that does not read must not hold up decisions. It reports
// whether the connection still works.
func (c *conn) relieve() bool {
	if len(c.out) < flushAt {
		return true
	}
	c.finish()
	if !c.flush() {
		c.ending = true
		return false
	}
	return true
}

// finish answers the commands that are being decided.
func (c *conn) finish() {
	if c.pipeline != nil {
		c.pipeline.Finish()
	}
}

// turn returns when earlier commands have been answered.
func (c *conn) turn() {
	if c.pipeline != nil {
		c.pipeline.Turn()
	}
}

// flush sends the replies. It reports whether the connection still works.
func (c *conn) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	// The system's timer is set once for many replies: a client has between one and two times Write.
	if now := time.Now(); c.writeBy.Sub(now) < c.server.o.Write {
		c.writeBy = now.Add(2 * c.server.o.Write)
		if c.net.SetWriteDeadline(c.writeBy) != nil {
			return false
		}
	}
	_, err := c.net.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > usualWrite {
		c.out = nil
	}
	return err == nil
}

// read waits for more bytes. It reports false if the client has left, or took too long.
func (c *conn) read() bool {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
		if len(c.in) > usualRead {
			c.in = make([]byte, usualRead)
		}
	case c.w == len(c.in) && c.r > 0:
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	case c.w == len(c.in):
		// parse refuses a command that does not fit into the largest buffer.
		larger := make([]byte, min(2*len(c.in), commandBounds.bytes))
		copy(larger, c.in)
		c.in = larger
	}
	if !c.waitUntil(time.Now()) {
		return false
	}
	n, err := c.net.Read(c.in[c.w:])
	c.w += n
	return n > 0 || err == nil
}

// waitUntil sets the deadline for more bytes. A command that has begun must arrive within Read, whatever parts it
// comes in, and so must the token of a new client. It reports false if the connection has ended.
func (c *conn) waitUntil(now time.Time) bool {
	o := &c.server.o
	var until time.Time
	switch {
	case !c.known:
		until = c.opened.Add(o.Read)
	case c.w > c.r:
		if c.begun.IsZero() {
			c.begun = now
		}
		until = c.begun.Add(o.Read)
	case c.readBy.Sub(now) > o.Idle:
		until = c.readBy // the system's timer is set once for many commands
	default:
		until = now.Add(o.Idle + o.Idle/4)
	}
	if !until.Equal(c.readBy) {
		c.readBy = until
		return c.net.SetReadDeadline(until) == nil
	}
	return true
}

// fail replies an error. The text begins with its code.
func (c *conn) fail(text string) {
	c.turn()
	c.out = appendError(c.out, text)
}
