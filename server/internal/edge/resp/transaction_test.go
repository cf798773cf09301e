package resp

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/share"
	"github.com/sluicehq/sluice/server/internal/listen/stream"
)

// Each step is a command and the beginning of its reply, in both versions of the protocol.
func TestTransactionsReplyInBothProtocols(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	const aborted = "-EXECABORT Transaction discarded because of previous errors."
	for _, c := range []struct {
		name  string
		steps [][2]string
	}{
		{"exec", [][2]string{
			{"MULTI", "OK"},
			{"CL.THROTTLE exec 1 1 86400", "QUEUED"},
			{"CL.THROTTLE exec 1 1 86400 2", "QUEUED"},
			{"SLUICE.CHECK other 192.0.2.1 PEEK", "QUEUED"},
			{"EXEC", "[[0 2 1 -1 86400] [1 2 1 86400 86400] "},
			{"PING", "PONG"},
			{"EXEC", "-ERR EXEC without MULTI"},
		}},
		{"empty", [][2]string{{"MULTI", "OK"}, {"EXEC", "[]"}}},
		{"discard", [][2]string{
			{"MULTI", "OK"},
			{"CL.THROTTLE discard 1 1 86400", "QUEUED"},
			{"DISCARD", "OK"},
			{"CL.THROTTLE discard 1 1 86400 0", "[0 2 2 -1 0]"},
			{"DISCARD", "-ERR DISCARD without MULTI"},
		}},
		{"reset", [][2]string{
			{"MULTI", "OK"},
			{"CL.THROTTLE reset 1 1 86400", "QUEUED"},
			{"RESET", "RESET"},
			{"EXEC", "-ERR EXEC without MULTI"},
			{"CL.THROTTLE reset 1 1 86400 0", "[0 2 2 -1 0]"},
		}},
		{"unknown command", [][2]string{
			{"MULTI", "OK"},
			{"CL.THROTTLE unknown 1 1 86400", "QUEUED"},
			{"GET unknown", "-ERR unknown command 'GET'"},
			{"CL.THROTTLE unknown 1 1 86400", "QUEUED"},
			{"EXEC", aborted},
			{"CL.THROTTLE unknown 1 1 86400 0", "[0 2 2 -1 0]"},
		}},
		{"too few words", [][2]string{{"MULTI", "OK"}, {"ECHO", "-ERR wrong number of arguments for 'echo' command"}, {"EXEC", aborted}, {"MULTI", "OK"}, {"EXEC", "[]"}}},
		{"errors of commands", [][2]string{
			{"MULTI", "OK"},
			{"CL.THROTTLE errors", "QUEUED"},
			{"CL.THROTTLE errors 1 0 1", "QUEUED"},
			{"SLUICE.CHECK none", "QUEUED"},
			{"CL.THROTTLE errors 1 1 86400", "QUEUED"},
			{"EXEC", "[-Cell error: Store error: Usage: cl.throttle"},
			{"CL.THROTTLE errors 1 1 86400 0", "[0 2 1 -1 86400]"},
		}},
		{"nested", [][2]string{{"MULTI", "OK"}, {"ECHO a", "QUEUED"}, {"MULTI", "-ERR MULTI calls can not be nested"}, {"EXEC", "[a]"}}},
		{"watch", [][2]string{{"WATCH key", "-ERR WATCH has nothing to watch here"}, {"UNWATCH", "OK"}, {"MULTI", "OK"}, {"UNWATCH", "QUEUED"}, {"EXEC", "[OK]"}}},
		{"watch in a transaction", [][2]string{{"MULTI", "OK"}, {"WATCH key", "-ERR WATCH inside MULTI is not allowed"}, {"EXEC", "[]"}}},
		{"quit", [][2]string{{"MULTI", "OK"}, {"QUIT", "OK"}, {"", "closed: EOF"}}},
		{"protocol", [][2]string{{"MULTI", "OK"}, {"HELLO 3", "QUEUED"}, {"CLIENT GETNAME", "QUEUED"}, {"EXEC", "[{server:redis"}}},
	} {
		for _, version := range []string{"2", "3"} {
			t.Run(c.name+" RESP"+version, func(t *testing.T) {
				t.Parallel()
				to := s.dial()
				to.do("HELLO", version)
				for _, step := range c.steps {
					words := strings.Fields(step[0])
					if i := slices.Index(words, strings.Fields(c.name)[0]); i == 1 && words[0] == "CL.THROTTLE" {
						words[i] += version // each version has its own budgets
					}
					if len(words) > 0 {
						to.send(encode(words...))
					}
					if got := to.reply(); !strings.HasPrefix(got, step[1]) {
						t.Errorf("%s: %q, want %q", step[0], got, step[1])
					}
				}
			})
		}
	}
}

// A transaction whose client leaves before EXEC charges nothing.
func TestTransactionsWithoutExec(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	leaves, stays := s.dial(), s.dial()
	leaves.do("MULTI")
	for range 3 {
		leaves.do("CL.THROTTLE", "k", "9", "1", "86400")
	}
	leaves.send("*1\r\n$4\r\nEXE")
	if err := leaves.Close(); err != nil {
		t.Fatal(err)
	}
	for s.server.Sessions() > 1 {
		stays.do("PING")
	}
	if got := stays.do("CL.THROTTLE", "k", "9", "1", "86400", "0"); got != "[0 10 10 -1 0]" {
		t.Errorf("the abandoned transaction took units: %s", got)
	}
	if got := s.seen(); len(got) > 0 {
		t.Errorf("verdicts %v", got)
	}
}

// The commands of a transaction are bounded, and a transaction that is too long is not carried out in part.
func TestLongTransactions(t *testing.T) {
	t.Parallel()
	to := serve(t, noRules, nil).dial()
	for _, size := range []int{0, 60_000} {
		queued := 0
		to.do("MULTI")
		for {
			got := to.do("CL.THROTTLE", "k"+strings.Repeat("x", size), "9999", "1", "86400")
			if got == "QUEUED" {
				queued++
				continue
			}
			if !strings.HasPrefix(got, "-ERR the commands of a transaction have more than 262144 bytes") {
				t.Fatalf("a transaction that is too long got %s", got)
			}
			break
		}
		if got := to.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT") {
			t.Errorf("EXEC of a transaction that is too long got %s", got)
		}
		if fewest, most := mostQueued/(size+80)-1, mostQueued/(size+50); queued < fewest || queued > most {
			t.Errorf("%d commands were queued, want %d to %d", queued, fewest, most)
		}
	}
	if got := to.do("CL.THROTTLE", "k", "9999", "1", "86400", "0"); got != "[0 10000 10000 -1 0]" {
		t.Errorf("the refused transaction took units: %s", got)
	}
	to.do("MULTI")
	for range 1000 {
		to.do("CL.THROTTLE", "k", "9999", "1", "86400")
	}
	if got, end := to.do("EXEC"), fmt.Sprintf("[0 10000 9000 -1 %d]]", 1000*86400); !strings.HasSuffix(got, end) {
		t.Errorf("the last replies are %s, want %s", got[len(got)-50:], end)
	}
}

// When the client has left, EXEC charges no more commands.
func TestTransactionsEndWithTheirClient(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	s.dial().do("PING") // it serves
	client, left := net.Pipe()
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	c := s.server.open(&stream.Conn{Conn: left})
	c.multi(nil)
	const commands = 2000
	for range commands {
		c.queue([][]byte{[]byte("CL.THROTTLE"), []byte("k"), []byte("9999"), []byte("1"), []byte("86400")})
	}
	c.out = nil
	c.exec(nil)
	if n := len(s.seen()); n == 0 || n > commands/2 {
		t.Errorf("%d of %d commands were charged", n, commands)
	}
	if !c.ending {
		t.Error("the connection goes on")
	}
}

// Words may have any bytes, and a transaction may have inline commands.
func TestTransactionsKeepBytes(t *testing.T) {
	t.Parallel()
	to := serve(t, noRules, nil).dial()
	to.do("MULTI")
	to.do("ECHO", "a\r\n$1\r\n\x00")
	to.send("echo \"b\\n c\"\r\n")
	to.reply()
	to.do("ECHO", "")
	if got := to.do("EXEC"); got != "[a\r\n$1\r\n\x00 b\n c ]" {
		t.Errorf("EXEC changed the bytes: %q", got)
	}
}

// The third wrong token ends the connection, and the reply of EXEC is complete.
func TestTransactionsThatEndTheConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, func(o *Options) {
		o.Verify = func(token string) (known, decides bool) { return token == "right", token == "right" }
	})
	to := s.dial()
	if got := to.do("MULTI"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("MULTI without a token got %s", got)
	}
	to.do("AUTH", "right")
	to.do("MULTI")
	for range 3 {
		to.do("AUTH", "wrong")
	}
	to.do("ECHO", "last")
	if got := to.do("EXEC"); strings.Count(got, "-WRONGPASS") != 3 || !strings.HasSuffix(got, " last]") {
		t.Errorf("the reply to EXEC should be complete: %s", got)
	}
	if got := to.reply(); got != "closed: EOF" {
		t.Errorf("after three wrong tokens, the connection should end: %s", got)
	}
}

// All transactions share one room, of which a client takes as much as is free. They give it back however they end.
func TestTransactionsShareOneRoom(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	s.server.queues.mu.Lock()
	s.server.queues.room = share.NewRoom(4000)
	s.server.queues.mu.Unlock()
	taken := func() int {
		s.server.queues.mu.Lock()
		defer s.server.queues.mu.Unlock()
		n, _ := s.server.queues.room.Taken()
		return n
	}
	// fill queues commands until one is refused.
	fill := func(c *client) {
		t.Helper()
		c.do("MULTI")
		for range 100 {
			if got := c.do("CL.THROTTLE", "key", "9999", "1", "86400"); got != "QUEUED" {
				if !strings.HasPrefix(got, "-ERR of 67108864 bytes for the commands of all transactions, this client uses as much as is free") {
					t.Errorf("a command beyond the room gets %q", got)
				}
				return
			}
		}
		t.Error("a hundred commands were queued in 4,000 bytes")
	}
	first := s.dial()
	fill(first)
	if n := taken(); n != 0 {
		t.Errorf("a transaction that failed holds %d bytes", n)
	}
	if got := first.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT") {
		t.Errorf("EXEC after a refused command replies %q", got)
	}
	for _, ends := range [][]string{{"EXEC"}, {"EXEC", "now"}, {"DISCARD"}, {"RESET"}} {
		first.do("MULTI")
		first.do("CL.THROTTLE", "key", "9999", "1", "86400")
		if taken() == 0 {
			t.Error("a queued command takes no room")
		}
		first.do(ends...)
		if n := taken(); n != 0 {
			t.Errorf("after %s, %d bytes are taken", ends, n)
		}
	}
	second := s.dial()
	second.do("MULTI")
	second.do("CL.THROTTLE", "key", "9999", "1", "86400")
	second.Close()
	for taken() != 0 { // until the server sees that the client is gone
		if first.do("PING") != "PONG" {
			t.Fatal("the server does not answer another client")
		}
	}
}
