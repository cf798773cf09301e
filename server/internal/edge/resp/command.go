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
		{name: "cl.throttle", summary: "Takes units of a limit whose numbers the client gives.", group: "sluice", arity: -5, flags: []string{"write", "fast"}, keys: true, decides: true, do: (*conn).throttle},
		{name: "sluice.check", summary: "Decides by a rule of the server's configuration.", group: "sluice", arity: -2, flags: []string{"write", "fast"}, decides: true, do: (*conn).check},
		{name: "ping", summary: "Returns PONG, or its argument.", group: "connection", arity: -1, flags: fast, do: (*conn).ping},
		{name: "echo", summary: "Returns its argument.", group: "connection", arity: 2, flags: fast, do: (*conn).echo},
		{name: "hello", summary: "Chooses the version of the protocol, and authenticates.", group: "connection", arity: -1, flags: fast, stranger: true, do: (*conn).hello},
		{name: "auth", summary: "Authenticates with the token of the decision API.", group: "connection", arity: -2, flags: fast, stranger: true, do: (*conn).auth},
		{name: "quit", summary: "Closes the connection.", group: "connection", arity: -1, flags: fast, stranger: true, atOnce: true, do: (*conn).quit},
		{name: "reset", summary: "Makes the connection like a new one.", group: "connection", arity: 1, flags: fast, stranger: true, atOnce: true, do: (*conn).reset},
		{name: "multi", summary: "Begins a transaction.", group: "transactions", arity: 1, flags: transaction, atOnce: true, do: (*conn).multi},
		{name: "exec", summary: "Carries out the commands of a transaction.", group: "transactions", arity: 1, flags: transaction, atOnce: true, do: (*conn).exec},
		{name: "discard", summary: "Ends a transaction without carrying it out.", group: "transactions", arity: 1, flags: transaction, atOnce: true, do: (*conn).discard},
		{name: "watch", summary: "Says that there is nothing to watch.", group: "transactions", arity: -2, flags: transaction, atOnce: true, do: (*conn).watch},
		{name: "unwatch", summary: "Does nothing, because nothing is watched.", group: "transactions", arity: 1, flags: transaction, do: (*conn).unwatch},
		{name: "select", summary: "Accepts database 0, which is the only one.", group: "connection", arity: 2, flags: fast, do: (*conn).selectDatabase},
		{name: "client", summary: "Names the connection.", group: "connection", arity: -2, flags: fast, do: (*conn).client},
		{name: "cluster", summary: "Says that there is no cluster.", group: "cluster", arity: -2, flags: fast, do: (*conn).cluster},
		{name: "command", summary: "Describes the commands.", group: "server", arity: -1, flags: fast, do: (*conn).command},
		{name: "info", summary: "Describes the server.", group: "server", arity: -1, flags: fast, do: (*conn).info},
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
