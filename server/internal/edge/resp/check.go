package resp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// maxCost bounds costs to the integers that every client reads exactly.
const maxCost = 1 << 53

// check is SLUICE.CHECK rule key... [PLAN name] [COST n] [PEEK | DEBIT]. The rule defines how many parts its key has,
// so a part may be any text.
func (c *conn) check(args [][]byte) {
	rule := c.server.o.Decider.Policy().Rule(string(args[1]))
	if rule == nil {
		c.fail(fmt.Sprintf("ERR there is no rule '%s' in the configuration; give the name of one", shown(args[1])))
		return
	}
	parts := partsOf(rule)
	if len(args)-2 < len(parts) {
		c.fail(fmt.Sprintf("ERR rule %s: the key and the rule's differ in their number of parts, %d and %d: %s", rule.Name, len(args)-2, len(parts), listed(parts)))
		return
	}
	q := policy.RuleRequest{Rule: rule.Name}
	key, options := args[2:2+len(parts)], args[2+len(parts):]
	if problem := readOptions(&q, options); problem != "" {
		c.fail(fmt.Sprintf("ERR rule %s: %s; its key is %s, and then come PLAN, COST and PEEK or DEBIT", rule.Name, problem, listed(parts)))
		return
	}
	for i, part := range key {
		if len(part) > longestKey {
			c.fail(fmt.Sprintf("ERR rule %s: part %d of the key has %d bytes; give up to %d", rule.Name, i+1, len(part), longestKey))
			return
		}
		q.Key = append(q.Key, string(part))
	}
	began := time.Now()
	v, err := c.server.o.Decider.Policy().DecideRule(c.server.ctx, c.store, q)
	c.turn()
	if err != nil {
		var bad *policy.RuleRequestError
		var limit *sluice.RequestError
		switch {
		case errors.As(err, &bad):
			c.fail(fmt.Sprintf("ERR rule %s: %s", rule.Name, bad.Problem))
			return
		case errors.As(err, &limit):
			c.fail(fmt.Sprintf("ERR rule %s: %s", rule.Name, limit.Problem))
			return
		}
		c.fail("ERR the store did not decide; try again later")
		return
	}
	if !q.Peek {
		c.server.o.OnVerdict(&v, time.Since(began))
		c.dropLeases(&v)
	}
	c.reply(&v)
}

// readOptions reads what comes after a key.
func readOptions(q *policy.RuleRequest, options [][]byte) (problem string) {
	for i := 0; i < len(options); i++ {
		switch word := options[i]; {
		case is(word, "PEEK") && !q.Peek && !q.Debit:
			q.Peek = true
		case is(word, "DEBIT") && !q.Peek && !q.Debit:
			q.Debit = true
		case is(word, "PLAN") && q.Plan == "" && i+1 < len(options) && len(options[i+1]) > 0:
			i++
			q.Plan = string(options[i])
		case is(word, "COST") && q.Cost == 0 && i+1 < len(options):
			i++
			n, ok := parseInt(options[i])
			if !ok || n < 1 || n > maxCost {
				return fmt.Sprintf("the cost %s is not a whole number from 1 to %d", shown(options[i]), int64(maxCost))
			}
			q.Cost = n
		default:
			return fmt.Sprintf("%s is not expected", shown(word))
		}
	}
	return ""
}

// dropLeases gives back the leases of a verdict, because no command could end them.
func (c *conn) dropLeases(v *policy.Verdict) {
	for i := range v.Results {
		if r := &v.Results[i]; r.IsLease() {
			_ = r.GiveBack(c.server.ctx, c.server.o.Decider.Store()) // a lease that is not given back ends by itself
		}
	}
}

// reply appends a verdict: a map of eight pairs, whose order stays. If a fallback decided, what is not known is null, and
// there is a ninth pair.
func (c *conn) reply(v *policy.Verdict) {
	pairs, fellBack := 8, v.FellBack()
	if fellBack {
		pairs++
	}
	c.out = appendMap(c.out, c.version, pairs)
	allowed := int64(0)
	if v.Allowed() {
		allowed = 1
	}
	c.number("allowed", allowed)
	c.text("action", v.Action.String())
	retry := int64(-1)
	if wait := v.RetryAfter(); !v.Allowed() && wait > 0 {
		retry = millis(wait)
	}
	switch {
	case v.Known():
		c.number("capacity", v.Tightest.Limit)
		c.number("remaining", v.Tightest.Remaining)
	case v.TightestLimit != nil && v.Err == nil:
		c.number("capacity", v.TightestLimit.Capacity())
		c.null("remaining")
	default:
		c.null("capacity")
		c.null("remaining")
	}
	c.number("retry_after_ms", retry)
	if v.Known() {
		c.number("reset_after_ms", millis(v.Tightest.ResetAfter))
	} else {
		c.null("reset_after_ms")
	}
	c.number("delay_ms", millis(v.Delay))
	c.text("reason", v.Reason.String())
	if fellBack {
		c.number("degraded", 1)
	}
}

// null appends a name without a value.
func (c *conn) null(key string) { c.out = appendNull(appendBulk(c.out, key), c.version) }

// number appends a name and its number.
func (c *conn) number(key string, n int64) { c.out = appendInt(appendBulk(c.out, key), n) }

// millis rounds up to whole milliseconds.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// partsOf returns the parts of a rule's key that a request gives.
func partsOf(r *policy.Rule) (parts []policy.Part) {
	for _, part := range r.Key {
		if part.Source != source.Constant {
			parts = append(parts, part)
		}
	}
	return parts
}

// listed lists the parts of a key in words.
func listed(parts []policy.Part) string {
	if len(parts) == 0 {
		return "empty"
	}
	names := make([]string, len(parts))
	for i := range parts {
		names[i] = parts[i].String()
	}
	return strings.Join(names, " ")
}
