package resp

import (
	"strings"
	"testing"
)

// Each command has the reply that a client of Redis expects.
func TestCommandsReplyAsRedisClientsExpect(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	for _, c := range []struct {
		name  string
		steps [][2]string // a command in words, and its reply or the beginning of it
	}{
		{"ping", [][2]string{{"PING", "PONG"}, {"ping hello", "hello"}, {"PING a b", "-ERR wrong number"}}},
		{"echo", [][2]string{{"ECHO word", "word"}, {"echo", "-ERR wrong number of arguments for 'echo' command"}}},
		{"select", [][2]string{{"SELECT 0", "OK"}, {"SELECT 1", "-ERR DB index is out of range"}, {"SELECT x", "-ERR value is not an integer"}}},
		{"unknown", [][2]string{
			{"FOO x", "-ERR unknown command 'FOO': this server decides rate limits, with CL.THROTTLE and SLUICE.CHECK"},
			{"GET x", "-ERR unknown command 'GET': this server decides rate limits, with CL.THROTTLE and SLUICE.CHECK; to look at a budget"},
			{"del x", "-ERR unknown command 'del': this server decides rate limits, with CL.THROTTLE and SLUICE.CHECK; the budgets of CL.THROTTLE cannot be deleted"},
			{"TTL x", "-ERR unknown command 'TTL': this server decides rate limits, with CL.THROTTLE and SLUICE.CHECK; the fifth number of CL.THROTTLE"},
			{"ZREMRANGEBYSCORE x 0 1", "-ERR unknown command 'ZREMRANGEBYSCORE': this server decides rate limits, with CL.THROTTLE and SLUICE.CHECK; CL.THROTTLE counts"},
			{"ZREMRANGEBYSCOREX x", "-ERR unknown command 'ZREMRANGEBYSCOREX': this server"},
			{"PING", "PONG"},
		}},
		{"quit", [][2]string{{"QUIT", "OK"}, {"", "closed: EOF"}}},
		{"reset", [][2]string{{"HELLO 3", "{"}, {"CLIENT SETNAME me", "OK"}, {"RESET", "RESET"}, {"CLIENT GETNAME", "null"}, {"HELLO", "["}}},
		{"hello", [][2]string{
			{"HELLO 3 SETNAME me", "{server:redis version:7.2.0 proto:3 id:"},
			{"CLIENT GETNAME", "me"},
			{"HELLO 2", "[server redis version 7.2.0 proto 2 id"},
			{"HELLO 4", "-NOPROTO"},
			{"HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"},
			{"HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'"},
			{"HELLO 3 SETNAME you AUTH", "-ERR Syntax error in HELLO option 'AUTH'"},
			{"HELLO 3 NAME a b", "-ERR Syntax error in HELLO option 'NAME'"},
			{"HELLO 3 AUTH default token", "-ERR AUTH <password> called without any password"},
			{"HELLO x", "-ERR Protocol version is not an integer"},
			{"CLIENT GETNAME", "me"},
		}},
		{"client", [][2]string{
			{"CLIENT ID", ""},
			{"CLIENT SETINFO lib-name go-redis", "OK"},
			{"CLIENT SETINFO LIB-VER 1.0", "OK"},
			{"CLIENT SETINFO other 1", "-ERR Unrecognized option 'other'"},
			{"CLIENT SETNAME a\x01b", "-ERR Client names"},
			{"CLIENT TRACKING ON", "-ERR unknown subcommand"},
			{"CLIENT", "-ERR wrong number"},
		}},
		{"names", [][2]string{
			{"CLIENT SETNAME !~", "OK"},
			{"CLIENT GETNAME", "!~"},
			{"CLIENT SETNAME a\x7f", "-ERR Client names"},
			{"CLIENT SETNAME " + strings.Repeat("n", longestName+1), "-ERR Client names"},
			{"CLIENT SETNAME " + strings.Repeat("n", longestName), "OK"},
		}},
		{"auth", [][2]string{{"AUTH token", "-ERR AUTH <password> called without any password configured"}, {"AUTH a b c", "-ERR syntax error"}}},
		{"cluster", [][2]string{{"CLUSTER SLOTS", "-ERR This instance has cluster support disabled"}}},
		{"command", [][2]string{
			{"COMMAND COUNT", "18"},
			{"COMMAND INFO cl.throttle nothing", "[[cl.throttle -5 [write fast] 1 1 1 [@sluice] [] [] []] null]"},
			{"COMMAND", "[[cl.throttle"},
			{"COMMAND INFO", "[[cl.throttle"},
			{"COMMAND LIST", "[cl.throttle sluice.check ping"},
			{"COMMAND DOCS PING other", "[ping [summary Returns PONG, or its argument. since 1.0.0 group connection complexity O(1)]]"},
			{"COMMAND GETKEYS x", "-ERR unknown subcommand"},
		}},
		{"info", [][2]string{{"INFO", "# Server\r\nredis_version:7.2.0\r\n"}, {"INFO server", "# Server"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			to := s.dial()
			for _, step := range c.steps {
				if step[0] != "" {
					to.send(encode(strings.Fields(step[0])...))
				}
				if got := to.reply(); !strings.HasPrefix(got, step[1]) {
					t.Errorf("%s: %q, want %q", step[0], got, step[1])
				}
			}
		})
	}
}

// A client without the token gives no command, and may send only short ones.
func TestClientsWithoutTheTokenGiveNoCommand(t *testing.T) {
	t.Parallel()
	secured := func(o *Options) {
		o.Verify = func(token string) (known, decides bool) { return token == "right", token == "right" }
	}
	s := serve(t, noRules, secured)
	for _, c := range []struct {
		name  string
		steps [][2]string
	}{
		{"none", [][2]string{
			{"PING", "-NOAUTH"},
			{"CL.THROTTLE k 1 1 1", "-NOAUTH"},
			{"SLUICE.CHECK other 192.0.2.1", "-NOAUTH"},
			{"COMMAND", "-NOAUTH"},
			{"INFO", "-NOAUTH"},
			{"CLIENT ID", "-NOAUTH"},
			{"HELLO 3", "-NOAUTH HELLO"},
			{"RESET", "RESET"},
			{"PING", "-NOAUTH"},
			{"QUIT", "OK"},
		}},
		{"token", [][2]string{{"AUTH right", "OK"}, {"PING", "PONG"}, {"RESET", "RESET"}, {"PING", "-NOAUTH"}}},
		{"user and token", [][2]string{{"AUTH default right", "OK"}, {"PING", "PONG"}}},
		{"hello", [][2]string{{"HELLO 3 AUTH default right SETNAME me", "{server:redis"}, {"CLIENT GETNAME", "me"}}},
		{"other user", [][2]string{{"AUTH admin right", "-WRONGPASS"}, {"HELLO 3 AUTH admin right", "-WRONGPASS"}, {"PING", "-NOAUTH"}}},
		{"guesses", [][2]string{{"AUTH a", "-WRONGPASS"}, {"HELLO 2 AUTH default b", "-WRONGPASS"}, {"AUTH c", "-WRONGPASS"}, {"", "closed: EOF"}}},
		{"a right token forgives wrong ones", [][2]string{
			{"AUTH a", "-WRONGPASS"}, {"AUTH b", "-WRONGPASS"}, {"AUTH right", "OK"}, {"AUTH a", "-WRONGPASS"}, {"AUTH b", "-WRONGPASS"}, {"PING", "PONG"},
		}},
		{"a wrong token keeps the right", [][2]string{{"AUTH right", "OK"}, {"AUTH wrong", "-WRONGPASS"}, {"PING", "PONG"}}},
		{"long", [][2]string{{"AUTH " + strings.Repeat("x", 5000), "-ERR Protocol error: invalid bulk length"}, {"", "closed: EOF"}}},
		{"many words", [][2]string{{strings.Repeat("x ", 17), "-ERR Protocol error: invalid multibulk length"}, {"", "closed: EOF"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			to := s.dial()
			for _, step := range c.steps {
				if step[0] != "" {
					to.send(encode(strings.Fields(step[0])...))
				}
				if got := to.reply(); !strings.HasPrefix(got, step[1]) {
					t.Errorf("%.40s: %q, want %q", step[0], got, step[1])
				}
			}
		})
	}
	if len(s.seen()) > 0 {
		t.Errorf("strangers got verdicts: %v", s.seen())
	}
}
