package resp

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// throttleRule is the rule of CL.THROTTLE in verdicts.
var throttleRule = &policy.Rule{Name: ThrottleName}

// ThrottleRule returns the rule that verdicts of CL.THROTTLE name. It is not part of a policy.
func ThrottleRule() *policy.Rule { return throttleRule }

// longestKey bounds the key of CL.THROTTLE, and each part of a key of SLUICE.CHECK.
const longestKey = 4 << 10

// unknownNumber is in place of what remains, and of when it resets, if a fallback decided because the store failed.
const unknownNumber = -1

// throttle is CL.THROTTLE key max_burst count period [quantity]. It answers like redis-cell: limited, limit,
// remaining, retry after, reset after.
func (c *conn) throttle(args [][]byte) {
	if len(args) != 5 && len(args) != 6 {
		c.cellError("Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
		return
	}
	ns := [4]int64{3: 1}
	for i, word := range args[2:] {
		n, ok := parseInt(word)
		if !ok {
			c.cellError("Couldn't parse as integer: " + shown(word))
			return
		}
		ns[i] = n
	}
	key, quantity := args[1], ns[3]
	switch {
	case len(key) == 0:
		c.cellError("the key is empty, so all such clients would share one budget; name the client")
		return
	case len(key) > longestKey:
		c.cellError(fmt.Sprintf("the key has %d bytes; give up to %d, such as a hash", len(key), longestKey))
		return
	case quantity < 0:
		c.cellError(fmt.Sprintf("quantity is %d; give 1 or more, or 0 to take nothing", quantity))
		return
	}
	// Only the monotonic clock is read, and twice: each time takes a tenth of the decision.
	began := time.Since(c.server.began)
	t, problem := c.server.throttles.find(numbers{ns[0], ns[1], ns[2]}, c.recent, c.net.RemoteAddr(), int64(began/time.Second))
	if problem != "" {
		c.cellError(problem)
		return
	}
	c.recent = t
	// The key is copied, because the store may still need it when a call has taken too long.
	q := sluice.Request{Limit: t.limit, Key: sluice.StringKey(string(key)), Cost: quantity, Peek: quantity == 0}
	d, err := c.store.Decide(c.server.ctx, q)
	c.turn()
	if quantity > 0 {
		c.observe(&q, &d, err, time.Since(c.server.began)-began)
	}
	if err != nil {
		c.cellError("the store did not decide; try again later")
		return
	}
	c.out = appendArray(c.out, 5)
	c.out = appendInt(c.out, limited(d.Allowed))
	c.out = appendInt(c.out, t.numbers.maxBurst+1)
	remaining, reset := d.Remaining, seconds(d.ResetAfter)
	if d.Degraded {
		remaining, reset = unknownNumber, unknownNumber
	}
	c.out = appendInt(c.out, remaining)
	c.out = appendInt(c.out, retryAfter(&d))
	c.out = appendInt(c.out, reset)
}

// observe reports the verdict of CL.THROTTLE. It is the same Verdict for each command of the connection.
func (c *conn) observe(q *sluice.Request, d *sluice.Decision, err error, took time.Duration) {
	r := &c.results[0]
	// Numbers that a client chooses are like an override: one gauge counts for all of them.
	*r = policy.LimitResult{Rule: throttleRule, Request: *q, Decision: *d, Override: true}
	c.verdict = policy.Verdict{
		Rule: throttleRule, Reason: d.Reason, Tightest: *d, TightestLimit: q.Limit, Results: c.results[:], Err: err,
	}
	switch {
	case err != nil:
		c.verdict.Deny(sluice.ReasonStoreError, throttleRule, nil)
	case !d.Allowed:
		c.verdict.Deny(d.Reason, throttleRule, r)
	}
	c.server.o.OnVerdict(&c.verdict, took)
}

func limited(allowed bool) int64 {
	if allowed {
		return 0
	}
	return 1
}

// retryAfter returns the seconds after which a denied command may come back: -1 if it was allowed, or never will be.
func retryAfter(d *sluice.Decision) int64 {
	if d.Allowed || d.RetryAfter == 0 {
		return -1
	}
	return seconds(d.RetryAfter)
}

// seconds rounds up to whole seconds. Like redis-cell it ignores what is less than a millisecond.
func seconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		n++
	}
	return n
}

// parseInt reads an integer as redis-cell does.
func parseInt(word []byte) (int64, bool) {
	if len(word) > 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(word), 10, 64) // the string stays on the stack
	return n, err == nil
}

// cellError replies an error in the form of redis-cell.
func (c *conn) cellError(problem string) { c.fail("Cell error: Store error: " + problem) }
