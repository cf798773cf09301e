package resp

import (
	"bytes"
	"fmt"
)

// compatible is the version of Redis whose protocol the server speaks. Clients read it.
const compatible = "7.2.0"

// mostFailures is how many wrong tokens a connection may give.
const mostFailures = 3

func (c *conn) ping(args [][]byte) {
	switch len(args) {
	case 1:
		c.out = appendSimple(c.out, "PONG")
	case 2:
		c.out = appendBulk(c.out, args[1])
	default:
		c.fail("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *conn) echo(args [][]byte) { c.out = appendBulk(c.out, args[1]) }

func (c *conn) quit([][]byte) {
	c.ok()
	c.ending = true
}

func (c *conn) ok() { c.out = appendSimple(c.out, "OK") }

// auth is AUTH token, or AUTH default token.
func (c *conn) auth(args [][]byte) {
	switch {
	case len(args) > 3:
		c.fail("ERR syntax error")
	case len(args) == 3:
		if c.authenticate(args[1], args[2]) {
			c.ok()
		}
	case c.authenticate([]byte("default"), args[1]):
		c.ok()
	}
}

// authenticate checks a token, and replies why it is wrong.
func (c *conn) authenticate(user, token []byte) bool {
	if c.server.o.Verify == nil {
		c.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct? The server has no API token.")
		return false
	}
	known, decides := c.server.o.Verify(string(token))
	if !is(user, "default") || !decides {
		why := "WRONGPASS invalid username-password pair: the user is default, and the password is the token of the decision API"
		if known && is(user, "default") {
			why = "NOPERM the token lacks the scope decide: the password is the token of the decision API"
		}
		c.fail(why)
		c.failures++
		c.ending = c.failures >= mostFailures
		return false
	}
	c.known, c.failures = true, 0
	return true
}

// hello is HELLO [version [AUTH user token] [SETNAME name]].
func (c *conn) hello(args [][]byte) {
	version, name, named := c.version, "", false
	if len(args) > 1 {
		switch n, ok := parseInt(args[1]); {
		case !ok:
			c.fail("ERR Protocol version is not an integer or out of range")
			return
		case n != 2 && n != 3:
			c.fail("NOPROTO unsupported protocol version")
			return
		default:
			version = int(n)
		}
	}
	for i := 2; i < len(args); {
		switch rest := args[i+1:]; {
		case is(args[i], "AUTH") && len(rest) >= 2:
			if !c.authenticate(rest[0], rest[1]) {
				return
			}
			i += 3
		case is(args[i], "SETNAME") && len(rest) >= 1:
			if !isName(rest[0]) {
				c.fail(badName)
				return
			}
			name, named = string(rest[0]), true
			i += 2
		default:
			c.fail(fmt.Sprintf("ERR Syntax error in HELLO option '%s'", shown(args[i])))
			return
		}
	}
	if !c.known {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.version = version
	if named {
		c.name = name
	}
	c.out = appendMap(c.out, c.version, 7)
	c.text("server", "redis")
	c.text("version", compatible)
	c.out = appendInt(appendBulk(c.out, "proto"), int64(c.version))
	c.out = appendInt(appendBulk(c.out, "id"), c.id)
	c.text("mode", "standalone")
	c.text("role", "master")
	c.out = appendArray(appendBulk(c.out, "modules"), 0)
}

// text appends a key and its text.
func (c *conn) text(key, value string) { c.out = appendBulk(appendBulk(c.out, key), value) }

// reset makes the connection like a new one.
func (c *conn) reset([][]byte) {
	c.end()
	c.version, c.name, c.known = 2, "", c.server.o.Verify == nil
	c.out = appendSimple(c.out, "RESET")
}

// selectDatabase is SELECT, which clients send at the start.
func (c *conn) selectDatabase(args [][]byte) {
	switch n, ok := parseInt(args[1]); {
	case !ok:
		c.fail("ERR value is not an integer or out of range")
	case n != 0:
		c.fail("ERR DB index is out of range: there is one set of budgets, 0")
	default:
		c.ok()
	}
}

// longestName bounds the name of a connection.
const longestName = 256

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

func isName(name []byte) bool {
	return len(name) <= longestName && bytes.IndexFunc(name, func(r rune) bool { return r < '!' || r > '~' }) < 0
}

// clientWords are the subcommands of CLIENT that clients send at the start, with the number of their words.
var clientWords = map[string]int{"id": 2, "getname": 2, "setname": 3, "setinfo": 4}

// clientProblem returns why CLIENT is refused with these words; empty if it is accepted.
func clientProblem(args [][]byte) string {
	var room [longestCommand]byte
	switch n, ok := clientWords[string(lower(args[1], room[:0]))]; {
	case !ok:
		return fmt.Sprintf("ERR unknown subcommand '%s'; there are CLIENT ID, GETNAME, SETNAME and SETINFO", shown(args[1]))
	case n != len(args):
		return fmt.Sprintf("ERR wrong number of arguments for 'client|%s' command", lower(args[1], nil))
	}
	return ""
}

// client is CLIENT with one of its subcommands.
func (c *conn) client(args [][]byte) {
	switch sub := args[1]; {
	case is(sub, "ID"):
		c.out = appendInt(c.out, c.id)
	case is(sub, "GETNAME"):
		if c.name == "" {
			c.out = appendNull(c.out, c.version)
			return
		}
		c.out = appendBulk(c.out, c.name)
	case is(sub, "SETNAME"):
		if !isName(args[2]) {
			c.fail(badName)
			return
		}
		c.name = string(args[2])
		c.ok()
	default: // SETINFO, which nothing uses
		if !is(args[2], "LIB-NAME") && !is(args[2], "LIB-VER") {
			c.fail(fmt.Sprintf("ERR Unrecognized option '%s'", shown(args[2])))
			return
		}
		c.ok()
	}
}

// cluster answers clients that look for a cluster.
func (c *conn) cluster([][]byte) { c.fail("ERR This instance has cluster support disabled") }
