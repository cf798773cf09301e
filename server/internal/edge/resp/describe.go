package resp

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// command is COMMAND, which clients use to learn the commands.
func (c *conn) command(args [][]byte) {
	all := c.server.verbs
	switch {
	case len(args) == 1:
		c.describeAll(all)
	case is(args[1], "COUNT") && len(args) == 2:
		c.out = appendInt(c.out, int64(len(all)))
	case is(args[1], "LIST") && len(args) == 2:
		c.out = appendArray(c.out, len(all))
		for i := range all {
			c.out = appendBulk(c.out, all[i].name)
		}
	case is(args[1], "INFO") && len(args) == 2:
		c.describeAll(all)
	case is(args[1], "INFO"):
		c.out = appendArray(c.out, len(args)-2)
		for _, name := range args[2:] {
			if v := c.server.table.find(name); v != nil {
				c.describe(v)
			} else {
				c.out = appendNull(c.out, c.version)
			}
		}
	case is(args[1], "DOCS"):
		c.document(all, args[2:])
	default:
		c.fail(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%s'; there are COMMAND COUNT, DOCS, INFO and LIST", shown(args[1])))
	}
}

func (c *conn) describeAll(all []verb) {
	c.out = appendArray(c.out, len(all))
	for i := range all {
		c.describe(&all[i])
	}
}

// describe appends the description of a command for COMMAND INFO.
func (c *conn) describe(v *verb) {
	c.out = appendBulk(appendArray(c.out, 10), v.name)
	c.out = appendInt(c.out, int64(v.arity))
	c.out = appendArray(c.out, len(v.flags))
	for _, f := range v.flags {
		c.out = appendSimple(c.out, f)
	}
	key := int64(0)
	if v.keys {
		key = 1
	}
	for range 3 { // the first key, the last key, and the step between keys
		c.out = appendInt(c.out, key)
	}
	c.out = appendSimple(appendArray(c.out, 1), "@"+v.group)
	for range 3 { // tips, specifications of keys, subcommands
		c.out = appendArray(c.out, 0)
	}
}

// document appends the reply to COMMAND DOCS for some commands, or for all. It leaves out unknown names.
func (c *conn) document(all []verb, names [][]byte) {
	chosen := make([]*verb, 0, len(all))
	for i := range all {
		wanted := len(names) == 0
		for _, name := range names {
			wanted = wanted || is(name, all[i].name)
		}
		if wanted {
			chosen = append(chosen, &all[i])
		}
	}
	c.out = appendMap(c.out, c.version, len(chosen))
	for _, v := range chosen {
		c.out = appendMap(appendBulk(c.out, v.name), c.version, 4)
		c.text("summary", v.summary)
		c.text("since", "1.0.0")
		c.text("group", v.group)
		c.text("complexity", "O(1)")
	}
}

// info is INFO. It is the same whatever sections are wanted.
func (c *conn) info([][]byte) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nsluice_version:%s\r\nprocess_id:%d\r\nuptime_in_seconds:%d\r\n",
		compatible, c.server.o.Version, os.Getpid(), int64(time.Since(c.server.began)/time.Second))
	fmt.Fprintf(&b, "\r\n# Clients\r\nconnected_clients:%d\r\n\r\n# Replication\r\nrole:master\r\n", c.server.Sessions())
	c.out = appendBulk(c.out, b.String())
}
