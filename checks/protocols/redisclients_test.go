package protocols

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// token is the token of the decision API.
const token = "the-api-token-123456"

// forRedisClients is a server that only Redis clients with the token use.
const forRedisClients = `listen: {proxy: "off", api: "off", admin: "off", resp: '127.0.0.1:0'}
api: {token: ` + token + `}
rules: [{name: pair, key: [client_ip, "header:X-Plan"], limit: {algorithm: token_bucket, rate: 3/h}}]
`

// want is what each client prints: the replies to its commands, one in a line. All give the same commands. The last ones
// are transactions, as the client makes them by default: one of decisions, and one with an unknown command.
const want = `0 16 15 -1 2
0 16 12 -1 8
1 16 12 -1 8
remaining 2
denied limited
error Cell error: Store error: Zero rates are not supported
error unknown command 'get'
pipelined 0 0 0 1
transaction 0 0 0 1
aborted
left 2
instead of ttl: the fifth number of CL.THROTTLE with quantity 0 is the seconds until the key has its whole limit again
`

// Clients of several languages connect, authenticate, and get decisions.
func TestRedisClientsGetDecisions(t *testing.T) {
	t.Parallel()
	python, err := process.Python("redis", "python3-redis")
	if err != nil {
		t.Fatal(err)
	}
	node, err := process.Node("testdata/ioredis")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		command []string
	}{
		{"redis-cli", []string{"bash", "testdata/client.sh"}},
		{"python", []string{python, "testdata/client.py"}},
		{"php", []string{"php", "testdata/client.php"}},
		{"ioredis", []string{node, "testdata/ioredis/client.js"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, forRedisClients)
			host, port, err := net.SplitHostPort(s.Address("resp"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
			defer cancel()
			out, err := exec.CommandContext(ctx, c.command[0], append(c.command[1:], host, port, token)...).CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%v, it prints\n%s\nwant\n%s", err, out, want)
			}
		})
	}
}

// replies collects what a client gets.
type replies struct {
	strings.Builder
	t *testing.T
}

func (r *replies) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

// ints adds a list of integers.
func (r *replies) ints(reply []int64, err error) {
	r.t.Helper()
	if err != nil {
		r.line("error %v", err)
		return
	}
	r.line("%s", strings.Trim(fmt.Sprint(reply), "[]"))
}

// failed adds an error, without the code ERR, which some clients take away.
func (r *replies) failed(err error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprint(err), "ERR "), ": this server")
	r.line("error %s", text)
}

// aborted adds that a transaction was not carried out.
func (r *replies) aborted(err error) {
	r.t.Helper()
	if err == nil || !strings.Contains(err.Error(), "unknown command") && !strings.HasPrefix(err.Error(), "EXECABORT") {
		r.t.Errorf("a transaction with an unknown command: %v", err)
	}
	r.line("aborted")
}

// instead adds the remedy of an error.
func (r *replies) instead(err error) {
	_, text, _ := strings.Cut(fmt.Sprint(err), "; ")
	r.line("instead of ttl: %s", text)
}

// The client go-redis gets decisions, over both versions of the protocol.
func TestGoRedis(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", version), func(t *testing.T) {
			t.Parallel()
			s := serve(t, forRedisClients)
			client := redis.NewClient(&redis.Options{Addr: s.Address("resp"), Password: token, Protocol: version, ClientName: "test"})
			defer client.Close()
			ctx, got := t.Context(), &replies{t: t}
			throttle := func(args ...any) ([]int64, error) {
				return client.Do(ctx, append([]any{"CL.THROTTLE"}, args...)...).Int64Slice()
			}
			got.ints(throttle("user123", 15, 30, 60))
			got.ints(throttle("user123", 15, 30, 60, 3))
			got.ints(throttle("user123", 15, 30, 60, 100))
			for _, cost := range []int{1, 3} {
				verdict := map[string]any{}
				reply, err := client.Do(ctx, "SLUICE.CHECK", "pair", "192.0.2.1", "COST", "COST", cost).Result()
				if err != nil {
					t.Fatal(err)
				}
				switch reply := reply.(type) {
				case map[any]any:
					for k, v := range reply {
						verdict[k.(string)] = v
					}
				case []any:
					for i := 0; i+1 < len(reply); i += 2 {
						verdict[reply[i].(string)] = reply[i+1]
					}
				}
				if verdict["allowed"] == int64(1) {
					got.line("remaining %v", verdict["remaining"])
				} else {
					got.line("denied %v", verdict["reason"])
				}
			}
			_, err := throttle("user123", 15, 0, 60)
			got.failed(err)
			got.failed(client.Get(ctx, "x").Err())
			pipe := client.Pipeline()
			for range 4 {
				pipe.Do(ctx, "CL.THROTTLE", "pipelined", 2, 1, 3600)
			}
			all, err := pipe.Exec(ctx)
			if err != nil {
				t.Fatal(err)
			}
			text := "pipelined"
			for _, c := range all {
				reply, err := c.(*redis.Cmd).Int64Slice()
				if err != nil {
					t.Fatal(err)
				}
				text += fmt.Sprint(" ", reply[0])
			}
			got.line("%s", text)
			all, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				for range 4 {
					p.Do(ctx, "CL.THROTTLE", "transaction", 2, 1, 3600)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			text = "transaction"
			for _, c := range all {
				reply, err := c.(*redis.Cmd).Int64Slice()
				if err != nil {
					t.Fatal(err)
				}
				text += fmt.Sprint(" ", reply[0])
			}
			got.line("%s", text)
			_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Do(ctx, "CL.THROTTLE", "aborted", 1, 1, 3600)
				p.Get(ctx, "x")
				return nil
			})
			got.aborted(err)
			left, err := throttle("aborted", 1, 1, 3600, 0)
			if err != nil {
				t.Fatal(err)
			}
			got.line("left %d", left[2])
			got.instead(client.TTL(ctx, "x").Err())
			if got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if err := redis.NewClient(&redis.Options{Addr: s.Address("resp"), Password: "wrong", Protocol: version}).Ping(ctx).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
				t.Errorf("a wrong token: %v", err)
			}
		})
	}
}

// Rueidis gets decisions, also over the old protocol.
func TestRueidisGetsDecisions(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old %v", old), func(t *testing.T) {
			t.Parallel()
			s := serve(t, forRedisClients)
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{s.Address("resp")}, Password: token, AlwaysRESP2: old, DisableCache: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, got := t.Context(), &replies{t: t}
			throttle := func(args ...string) ([]int64, error) {
				return client.Do(ctx, client.B().Arbitrary("CL.THROTTLE").Keys(args[0]).Args(args[1:]...).Build()).AsIntSlice()
			}
			got.ints(throttle("user123", "15", "30", "60"))
			got.ints(throttle("user123", "15", "30", "60", "3"))
			got.ints(throttle("user123", "15", "30", "60", "100"))
			for _, cost := range []string{"1", "3"} {
				verdict, err := client.Do(ctx, client.B().Arbitrary("SLUICE.CHECK", "pair", "192.0.2.1", "COST", "COST", cost).Build()).AsMap()
				if err != nil {
					t.Fatal(err)
				}
				allowed, remaining, reason := verdict["allowed"], verdict["remaining"], verdict["reason"]
				if n, err := allowed.AsInt64(); err == nil && n == 1 {
					left, _ := remaining.AsInt64()
					got.line("remaining %d", left)
				} else {
					why, _ := reason.ToString()
					got.line("denied %s", why)
				}
			}
			_, err = throttle("user123", "15", "0", "60")
			got.failed(err)
			got.failed(client.Do(ctx, client.B().Arbitrary("get", "x").Build()).Error())
			var commands []rueidis.Completed
			for range 4 {
				commands = append(commands, client.B().Arbitrary("CL.THROTTLE").Keys("pipelined").Args("2", "1", "3600").Build())
			}
			text := "pipelined"
			for _, reply := range client.DoMulti(ctx, commands...) {
				ints, err := reply.AsIntSlice()
				if err != nil {
					t.Fatal(err)
				}
				text += fmt.Sprint(" ", ints[0])
			}
			got.line("%s", text)
			// rueidis sends the commands of a transaction one by one.
			err = client.Dedicated(func(c rueidis.DedicatedClient) error {
				exec := func(others ...rueidis.Completed) ([]rueidis.RedisMessage, error) {
					replies := c.DoMulti(ctx, slices.Concat([]rueidis.Completed{c.B().Multi().Build()}, others, []rueidis.Completed{c.B().Exec().Build()})...)
					var refused error
					for _, r := range replies[1 : len(replies)-1] {
						refused = errors.Join(refused, r.Error())
					}
					all, err := replies[len(replies)-1].ToArray()
					if err != nil && refused != nil {
						return nil, refused
					}
					return all, err
				}
				commands = commands[:0]
				for range 4 {
					commands = append(commands, c.B().Arbitrary("CL.THROTTLE").Keys("transaction").Args("2", "1", "3600").Build())
				}
				all, err := exec(commands...)
				if err != nil {
					t.Error(err)
				}
				text = "transaction"
				for i := range all {
					ints, err := all[i].AsIntSlice()
					if err != nil {
						t.Error(err)
					}
					text += fmt.Sprint(" ", ints[0])
				}
				got.line("%s", text)
				_, err = exec(c.B().Arbitrary("CL.THROTTLE").Keys("aborted").Args("1", "1", "3600").Build(), c.B().Arbitrary("get", "x").Build())
				got.aborted(err)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			left, err := throttle("aborted", "1", "1", "3600", "0")
			if err != nil {
				t.Fatal(err)
			}
			got.line("left %d", left[2])
			got.instead(client.Do(ctx, client.B().Ttl().Key("x").Build()).Error())
			if got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Over a shared Redis, two servers count the commands of a key together.
func TestThrottleOverRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	config := fmt.Sprintf("store: {redis: {addresses: ['%s'], deadline: 2s}}\n", r.Addr()) + forRedisClients
	ctx := t.Context()
	var clients []*redis.Client
	for range 2 {
		client := redis.NewClient(&redis.Options{Addr: serve(t, config).Address("resp"), Password: token})
		t.Cleanup(func() { client.Close() })
		clients = append(clients, client)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for key := range 20 {
		// So few units come back that none does during the test.
		burst, each := 1+random.Int64N(30), 3600+random.Int64N(3600)
		used := int64(0)
		for range 20 {
			quantity := random.Int64N(burst + 3)
			got, err := clients[random.IntN(2)].Do(ctx, "CL.THROTTLE", fmt.Sprint("key ", key), burst-1, 1, each, quantity).Int64Slice()
			want := []int64{0, burst, burst - used - quantity, -1, (used + quantity) * each}
			switch {
			case quantity > burst:
				want[0], want[2], want[4] = 1, burst-used, used*each
			case used+quantity > burst:
				want[0], want[2], want[3], want[4] = 1, burst-used, (used+quantity-burst)*each, used*each
			default:
				used += quantity
			}
			if err != nil || !near(got, want) {
				t.Fatalf("%d of %d, %d used: %v, %v; want %v", quantity, burst, used, got, err, want)
			}
		}
	}
}

// near reports whether a reply is the wanted one, or the wanted one some seconds later.
func near(got, want []int64) bool {
	if len(got) != 5 || !slices.Equal(got[:3], want[:3]) {
		return false
	}
	for i := 3; i < 5; i++ {
		if late := want[i] - got[i]; got[i] != want[i] && (want[i] <= 0 || late < 0 || late > int64(process.Patience/time.Second)) {
			return false
		}
	}
	return true
}
