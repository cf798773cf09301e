package redis

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

func TestAdapterReplies(t *testing.T) {
	s := redistest.Start(t)
	const sha = "ffffffffffffffffffffffffffffffffffffffff"
	eachAdapter(t, func(t *testing.T, a adapter) {
		c := a.dial(t, toServer(s))
		ctx := within(t, soon)
		keys := []string{a.name}

		_, err := c.EvalSHA(ctx, sha, keys, nil)
		wantServerError(t, err, "NOSCRIPT ")
		got, err := c.Eval(ctx, counting, keys, []string{" by source"})
		wantReply(t, "1 by source", got, err)
		got, err = c.EvalSHA(ctx, load(t, s), keys, []string{" by digest"})
		wantReply(t, "2 by digest", got, err)

		// Bytes that are no text, and no words, arrive as they are.
		raw := "\x00\xff\r\n$-1\r\n"
		got, err = c.Eval(ctx, `return KEYS[1] .. ARGV[1] .. ARGV[2]`, []string{raw}, []string{"", raw})
		wantReply(t, raw+raw, got, err)

		_, err = c.Eval(ctx, `return redis.error_reply('OOM no room')`, keys, nil)
		wantServerError(t, err, "OOM no room")
		_, err = c.Eval(ctx, `return redis.call('LPUSH', KEYS[1], 1)`, keys, nil)
		wantServerError(t, err, "WRONGTYPE ")
		_, err = c.Eval(ctx, `return false`, keys, nil)
		wantUnknown(t, err)

		text, err := c.Info(ctx, "")
		if err != nil || !strings.Contains(text, "\nmaxmemory_policy:noeviction") {
			t.Fatalf("INFO: %v\n%s", err, text)
		}
	})
}

func TestAdapterUnixSocket(t *testing.T) {
	s := redistest.Start(t, redistest.UnixSocket())
	eachAdapter(t, func(t *testing.T, a adapter) {
		c := a.dial(t, adapterRoute{network: "unix", addrs: []string{s.Socket}})
		got, err := c.Eval(within(t, soon), counting, []string{a.name}, []string{""})
		wantReply(t, "1", got, err)
	})
}

func TestAdapterTLSAndUser(t *testing.T) {
	s := redistest.Start(t, redistest.TLS(), redistest.ACL(
		"user default off",
		"user limiter on >secret resetkeys ~own:* -@all +evalsha +eval +info +ping +incr",
	))
	eachAdapter(t, func(t *testing.T, a adapter) {
		c := a.dial(t, adapterRoute{addrs: []string{s.TLSAddr()}, tls: s.TLSConfig(), user: "limiter", password: "secret"})
		ctx := within(t, soon)
		got, err := c.Eval(ctx, counting, []string{"own:" + a.name}, []string{""})
		wantReply(t, "1", got, err)
		_, err = c.Eval(ctx, counting, []string{"other:" + a.name}, []string{""})
		wantServerError(t, err, "NOPERM ")
	})
}
