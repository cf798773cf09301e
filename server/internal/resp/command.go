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
	do      func(c *conn, args [][]byte)
}

// verbs returns all commands.
func verbs() []verb {
	fast := []string{"fast", "loading", "stale"}
	return []verb{
		{"cl.throttle", "Takes units of a limit whose numbers the client gives.", "sluice", -5, []string{"write", "fast"}, true, false, true, (*conn).throttle},
		{"sluice.check", "Decides by a rule of the server's configuration.", "sluice", -2, []string{"write", "fast"}, false, false, true, (*conn).check},
		{"ping", "Returns PONG, or its argument.", "connection", -1, fast, false, false, false, (*conn).ping},
		{"echo", "Returns its argument.", "connection", 2, fast, false, false, false, (*conn).echo},
		{"hello", "Chooses the version of the protocol, and authenticates.", "connection", -1, fast, false, true, false, (*conn).hello},
		{"auth", "Authenticates with the token of the decision API.", "connection", -2, fast, false, true, false, (*conn).auth},
		{"quit", "Closes the connection.", "connection", -1, fast, false, true, false, (*conn).quit},
		{"reset", "Makes the connection like a new one.", "connection", 1, fast, false, true, false, (*conn).reset},
		{"select", "Accepts database 0, which is the only one.", "connection", 2, fast, false, false, false, (*conn).selectDatabase},
		{"client", "Names the connection.", "connection", -2, fast, false, false, false, (*conn).client},
		{"cluster", "Says that there is no cluster.", "cluster", -2, fast, false, false, false, (*conn).cluster},
		{"command", "Describes the commands.", "server", -1, fast, false, false, false, (*conn).command},
		{"info", "Describes the server.", "server", -1, fast, false, false, false, (*conn).info},
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

// find returns a command by its name, in letters of any case.
func (t table) find(name []byte) *verb {
	var room [16]byte // longer than every name
	if len(name) > len(room) {
		return nil
	}
	for i, b := range name {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		room[i] = b
	}
	return t[string(room[:len(name)])]
}

// do answers a command.
func (c *conn) do(q *command) {
	v := c.server.table.find(q.args[0])
	if c.pipeline != nil {
		if v != nil && v.decides && c.known && len(q.args) >= -v.arity {
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
		c.fail(fmt.Sprintf("ERR unknown command '%s': this server decides rate limits, with CL.THROTTLE and SLUICE.CHECK", shown(q.args[0])))
	case !c.known && !v.stranger:
		c.fail("NOAUTH Authentication required.")
	case v.arity > 0 && len(q.args) != v.arity, len(q.args) < -v.arity && v.name != "cl.throttle":
		c.fail(fmt.Sprintf("ERR wrong number of arguments for '%s' command", v.name))
	default:
		v.do(c, q.args)
	}
}

// decide answers a command that decides. It may answer later, in its turn, if more commands have arrived.
func (c *conn) decide(v *verb, args [][]byte) {
	if c.r == c.w && !c.pipeline.Pending() {
		v.do(c, args)
		return
	}
	c.pipeline.Do(func() { v.do(c, args) })
}

// is reports whether a word is an option, in letters of any case.
func is(word []byte, option string) bool { return strings.EqualFold(string(word), option) }
