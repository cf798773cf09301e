package resp

import "fmt"

// What to use instead of commands that this server does not have.
const (
	forReading  = "to look at a budget, give CL.THROTTLE the quantity 0, or SLUICE.CHECK the option PEEK"
	forTimes    = "the fifth number of CL.THROTTLE with quantity 0 is the seconds until the key has its whole limit again"
	forDeleting = "the budgets of CL.THROTTLE cannot be deleted; for keys of rules there is sluice reset RULE KEY, or POST /v1/reset"
	forExpiring = "budgets expire by themselves as soon as they are whole again; the period of CL.THROTTLE sets how soon"
	forCounting = "CL.THROTTLE counts by itself, and its quantity is how many units to take"
	forListing  = "sluice keys RULE, or GET /v1/keys, lists the keys that were denied lately"
	forScripts  = "CL.THROTTLE decides and counts in one step, so it needs no script"
)

// instead has the commands of Redis that programs try, mostly because they have limited by them.
var instead = map[string]string{
	"get": forReading, "mget": forReading, "exists": forReading, "type": forReading, "hget": forReading, "hgetall": forReading,
	"ttl": forTimes, "pttl": forTimes, "expiretime": forTimes, "pexpiretime": forTimes,
	"del": forDeleting, "unlink": forDeleting, "getdel": forDeleting, "flushdb": forDeleting, "flushall": forDeleting,
	"expire": forExpiring, "pexpire": forExpiring, "expireat": forExpiring, "pexpireat": forExpiring, "persist": forExpiring,
	"set": forCounting, "setnx": forCounting, "setex": forCounting, "incr": forCounting, "incrby": forCounting, "decr": forCounting,
	"decrby": forCounting, "hincrby": forCounting, "zadd": forCounting, "zcard": forCounting, "zremrangebyscore": forCounting,
	"keys": forListing, "scan": forListing,
	"eval": forScripts, "evalsha": forScripts, "script": forScripts, "fcall": forScripts,
}

// unknown is the error for a command that this server does not have.
func unknown(name []byte) string {
	text := fmt.Sprintf("ERR unknown command '%s': this server decides rate limits, with CL.THROTTLE and SLUICE.CHECK", shown(name))
	if hint := instead[string(lower(name, make([]byte, 0, longestCommand)))]; hint != "" {
		text += "; " + hint
	}
	return text
}
