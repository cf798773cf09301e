package resp

import (
	"fmt"
	"sync"

	"github.com/sluicehq/sluice/internal/share"
)

// mostQueued bounds the commands of a transaction, in bytes as clients send them: some four thousand CL.THROTTLE.
const mostQueued = 256 << 10

// mostQueuedByAll bounds the commands of all transactions, in bytes, of which a client uses as much as is free.
const mostQueuedByAll = 64 << 20

// queues is the room of the commands of all transactions. It is safe for concurrent use.
type queues struct {
	mu   sync.Mutex
	room *share.Room
}

// take takes room for n bytes of a caller, or gives it back if n is negative. It reports whether there was room.
func (q *queues) take(caller string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > 0 && !q.room.IsFree(caller) {
		return false
	}
	q.room.Take(caller, n)
	return true
}

// transaction holds the commands between MULTI and EXEC. Until EXEC they charge nothing.
type transaction struct {
	queued []byte // the commands, as words with lengths
	taken  int    // bytes of the room of all transactions
	count  int
	failed bool // a command was refused, so EXEC carries out none
}

// next takes a command from the queue. The words are parts of the queue.
func (t *transaction) next(args [][]byte) [][]byte {
	c, err := parseWords(t.queued, args, bounds{args: commandBounds.args, bytes: mostQueued})
	if err != nil {
		panic("resp: the queue holds a command that was not read before: " + err.Error())
	}
	t.queued = t.queued[c.size:]
	return c.args
}

// multi begins a transaction.
func (c *conn) multi([][]byte) {
	if c.transaction != nil {
		c.fail("ERR MULTI calls can not be nested")
		return
	}
	c.transaction = &transaction{}
	c.ok()
}

// queue keeps a command for EXEC.
func (c *conn) queue(args [][]byte) {
	t := c.transaction
	before := len(t.queued)
	t.queued = appendArray(t.queued, len(args))
	for _, word := range args {
		t.queued = appendBulk(t.queued, word)
	}
	if len(t.queued) > mostQueued {
		c.refuse(fmt.Sprintf("ERR the commands of a transaction have more than %d bytes: send fewer between MULTI and EXEC, or leave MULTI out; a pipeline without it is pipeline(transaction=False) in redis-py, pipeline() in ioredis and go-redis", mostQueued))
		return
	}
	n := len(t.queued) - before
	if !c.server.queues.take(c.caller(), n) {
		c.refuse(fmt.Sprintf("ERR of %d bytes for the commands of all transactions, this client uses as much as is free, or more: send EXEC earlier, or leave MULTI out", mostQueuedByAll))
		return
	}
	t.taken += n
	t.count++
	c.out = appendSimple(c.out, "QUEUED")
}

// refuse replies an error to a command that is not carried out. If it is part of a transaction, EXEC carries out nothing.
func (c *conn) refuse(text string) {
	if c.transaction != nil {
		c.release(c.transaction)
		*c.transaction = transaction{failed: true}
	}
	c.fail(text)
}

// release gives back the room of a transaction, nil for none.
func (c *conn) release(t *transaction) {
	if t != nil && t.taken > 0 {
		c.server.queues.take(c.caller(), -t.taken)
		t.taken = 0
	}
}

// end ends a transaction without carrying it out.
func (c *conn) end() {
	c.release(c.transaction)
	c.transaction = nil
}

// caller returns whose share of the room a connection uses.
func (c *conn) caller() string { return share.Peer(c.net.RemoteAddr().String()) }

// exec carries out the commands of a transaction. Commands of other clients may come between them: each decision is atomic.
func (c *conn) exec([][]byte) {
	t := c.transaction
	c.transaction = nil
	defer c.release(t)
	switch {
	case t == nil:
		c.fail("ERR EXEC without MULTI")
		return
	case t.failed:
		c.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	c.out = appendArray(c.out, t.count)
	c.executing = true
	for range t.count {
		c.args = t.next(c.args[:0])
		c.do(&command{args: c.args})
		if !c.relieve() {
			break
		}
	}
	c.executing = false
}

// discard is DISCARD, which ends a transaction.
func (c *conn) discard([][]byte) {
	if c.transaction == nil {
		c.fail("ERR DISCARD without MULTI")
		return
	}
	c.end()
	c.ok()
}

// watch refuses, because a client that gets OK relies on it.
func (c *conn) watch([][]byte) {
	if c.transaction != nil {
		c.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	c.fail("ERR WATCH has nothing to watch here: CL.THROTTLE decides and counts in one step, so leave WATCH out")
}

func (c *conn) unwatch([][]byte) { c.ok() }
