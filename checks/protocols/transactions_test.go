package protocols

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/checks/redistest"
)

// Random transactions have the replies of a real Redis.
func TestTransactionsAsInRedis(t *testing.T) {
	t.Parallel()
	theirs := redistest.Start(t).Addr()
	ours := serve(t, `listen: {proxy: "off", api: "off", admin: "off", resp: '127.0.0.1:0'}
rules: []
`).Address("resp")
	ctx := t.Context()
	for _, version := range []int{2, 3} {
		var conns []*redis.Conn
		for _, address := range []string{theirs, ours} {
			client := redis.NewClient(&redis.Options{Addr: address, Protocol: version, PoolSize: 1})
			t.Cleanup(func() { client.Close() })
			conn := client.Conn()
			t.Cleanup(func() { conn.Close() })
			conns = append(conns, conn)
		}
		info, err := conns[0].Do(ctx, "INFO", "server").Text()
		if err != nil {
			t.Fatal(err)
		}
		valkey := strings.Contains(info, "valkey")
		seed := rand.Uint64()
		t.Logf("RESP%d: seed %d", version, seed)
		random := rand.New(rand.NewPCG(seed, 0))
		executed, aborted, open := 0, 0, false
		for step := 0; step < 6000 || (executed < 100 || aborted < 50) && step < 60_000; step++ {
			words := strings.Fields([]string{
				"MULTI", "MULTI", "MULTI", "EXEC", "EXEC", "EXEC", "DISCARD", "PING", "PING", "ECHO word", "ECHO word", "ECHO", "nothing x",
				"PING a b", "SELECT 0", "SELECT 0", "SELECT x", "UNWATCH", "UNWATCH", "CLIENT GETNAME", "CLIENT SETNAME me", "EXEC now", "multi 1", "DISCARD 1", "WATCH",
				"CLIENT nope", "CLIENT ID x", "CLIENT SETNAME", "HELLO x", "HELLO 4",
			}[random.IntN(30)])
			if open && random.IntN(10) == 0 {
				words = []string{"WATCH", "key"} // outside of a transaction only Redis has it
			}
			if open && (words[0] == "MULTI" || words[0] == "WATCH") && valkey {
				continue // Valkey has other errors, and ends the transaction
			}
			args := make([]any, len(words))
			for i, w := range words {
				args[i] = w
			}
			var got [2]string
			for i, conn := range conns {
				reply, err := conn.Do(ctx, args...).Result()
				text := fmt.Sprint(reply)
				if err != nil {
					text = err.Error()
				}
				if list, ok := reply.([]any); ok {
					executed += len(list)
				}
				if end := "unknown subcommand 'nope'"; strings.Contains(text, end) {
					text, _, _ = strings.Cut(text, end) // the remedies differ
					text += end
				}
				text, _, _ = strings.Cut(strings.ReplaceAll(text, "ERR unknown command 'nothing': this server", "ERR unknown command 'nothing', with args"), ", with args")
				got[i] = text
			}
			switch words[0] {
			case "MULTI":
				open = true
			case "EXEC":
				open = false
			case "DISCARD":
				open = open && len(words) > 1
			}
			if strings.HasPrefix(got[0], "EXECABORT") {
				aborted++
			}
			if got[0] != got[1] {
				t.Fatalf("RESP%d, step %d, %q: %q, in Redis %q", version, step, words, got[1], got[0])
			}
		}
		if executed < 100 || aborted < 50 {
			t.Errorf("60000 steps had %d replies of transactions, and %d transactions that were not carried out: the test shows nothing", executed, aborted)
		}
	}
}
