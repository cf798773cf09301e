package resp

import (
	"fmt"
	"strings"
)

// verb is a command that the server has.
type verb struct {
	name    string
	summary string
	group   string
	// arity is the number of words, or the least number if it is negative, as COMMAND reports it.
	arity int
	flags []string
	// keys reports that the first word after the name is a key.
	keys bool
	// stranger reports that clients may send the command before they have authenticated.
	stranger bool
	// decides says that the command decides, and changes nothing else. So commands that arrive together can be decided
	// together.
	decides bool
	// atOnce says that a transaction does not keep the command for EXEC.
	atOnce bool
	do     func(c *conn, args [][]byte)
}

// verbs returns all commands.
func verbs() []verb {
	fast := []string{"fast", "loading", "stale"}
	transaction := []string{"noscript", "loading", "stale", "fast"}
	return []verb{
		{"cl.throttle", "Takes units of a limit whose numbers the client gives.", "sluice", -5, []string{"write", "fast"}, true, false, true, false, (*conn).throttle},
		{"sluice.check", "Decides by a rule of the server's configuration.", "sluice", -2, []string{"write", "fast"}, false, false, true, false, (*conn).check},
		{"ping", "Returns PONG, or its argument.", "connection", -1, fast, false, false, false, false, (*conn).ping},
		{"echo", "Returns its argument.", "connection", 2, fast, false, false, false, false, (*conn).echo},
		{"hello", "Chooses the version of the protocol, and authenticates.", "connection", -1, fast, false, true, false, false, (*conn).hello},
		{"auth", "Authenticates with the token of the decision API.", "connection", -2, fast, false, true, false, false, (*conn).auth},
		{"quit", "Closes the connection.", "connection", -1, fast, false, true, false, true, (*conn).quit},
		{"reset", "Makes the connection like a new one.", "connection", 1, fast, false, true, false, true, (*conn).reset},
		{"multi", "Begins a transaction.", "transactions", 1, transaction, false, false, false, true, (*conn).multi},
		{"exec", "Carries out the commands of a transaction.", "transactions", 1, transaction, false, false, false, true, (*conn).exec},
		{"discard", "Ends a transaction without carrying it out.", "transactions", 1, transaction, false, false, false, true, (*conn).discard},
		{"watch", "Says that there is nothing to watch.", "transactions", -2, transaction, false, false, false, true, (*conn).watch},
		{"unwatch", "Does nothing, because nothing is watched.", "transactions", 1, transaction, false, false, false, false, (*conn).unwatch},
		{"select", "Accepts database 0, which is the only one.", "connection", 2, fast, false, false, false, false, (*conn).selectDatabase},
		{"client", "Names the connection.", "connection", -2, fast, false, false, false, false, (*conn).client},
		{"cluster", "Says that there is no cluster.", "cluster", -2, fast, false, false, false, false, (*conn).cluster},
		{"command", "Describes the commands.", "server", -1, fast, false, false, false, false, (*conn).command},
		{"info", "Describes the server.", "server", -1, fast, false, false, false, false, (*conn).info},
	}
}

// table has commands by their names.
type table map[string]*verb

func newTable(all []verb) table {
	t := make(table, len(all))
	for i := range all {
		t[all[i].name] = &all[i]
	}
	return t
}

// longestCommand is at least as long as each name of a command.
const longestCommand = 16

// find returns a command by its name, in letters of any case.
func (t table) find(name []byte) *verb {
	var room [longestCommand]byte
	return t[string(lower(name, room[:0]))]
}

// lower appends the name of a command in small letters. A name that is too long for a command gets empty.
func lower(name, to []byte) []byte {
	if len(name) > longestCommand {
		return to
	}
	for _, b := range name {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		to = append(to, b)
	}
	return to
}

// do answers a command.
func (c *conn) do(q *command) {
	v := c.server.table.find(q.args[0])
	if c.pipeline != nil {
		if v != nil && v.decides && c.known && len(q.args) >= -v.arity && c.transaction == nil {
			c.decide(v, q.args)
			return
		}
		c.pipeline.Finish()
	}
	switch {
	case v == nil && q.inline:
		// A web page can make a browser send lines here. The first of them ends the connection.
		c.ending = true
		fallthrough
	case v == nil:
		c.refuse(unknown(q.args[0]))
	case !c.known && !v.stranger:
		c.refuse("NOAUTH Authentication required.")
	case v.arity > 0 && len(q.args) != v.arity, len(q.args) < -v.arity && v.name != "cl.throttle":
		problem := fmt.Sprintf("wrong number of arguments for '%s' command", v.name)
		if v.name == "exec" { // it ends the transaction in any case
			c.end()
			c.fail("EXECABORT Transaction discarded because of: " + problem)
			return
		}
		c.refuse("ERR " + problem)
	case v.name == "client" && clientProblem(q.args) != "":
		c.refuse(clientProblem(q.args))
	case c.transaction != nil && !v.atOnce:
		c.queue(q.args)
	default:
		v.do(c, q.args)
	}
}

// decide answers a command that decides. It may answer later, in its turn, if more commands have arrived.
func (c *conn) decide(v *verb, args [][]byte) {
	if c.r == c.w && !c.executing && !c.pipeline.Pending() {
		v.do(c, args)
		return
	}
	c.pipeline.Do(func() { v.do(c, args) })
}

// is reports whether a word is an option, in letters of any case.
func is(word []byte, option string) bool { return strings.EqualFold(string(word), option) }
