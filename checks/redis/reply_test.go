package redis

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
)

// Each adapter returns the replies of scripts, and errors as the server sent them.
func TestAdapterReplies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const sha = "ffffffffffffffffffffffffffffffffffffffff"
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		c := a.Dial(t, adapters.To(s.Addr()))
		ctx := redistest.Within(t, redistest.Soon)
		keys := []string{a.Name}

		_, err := c.EvalSHA(ctx, sha, keys, nil)
		wantServerError(t, err, "NOSCRIPT ")
		got, err := c.Eval(ctx, counting, keys, []string{" by source"})
		wantReply(t, "1 by source", got, err)
		got, err = c.EvalSHA(ctx, load(t, s), keys, []string{" by digest"})
		wantReply(t, "2 by digest", got, err)

		// Bytes that are not text arrive as they are.
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
	t.Parallel()
	s := redistest.Start(t)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		c := a.Dial(t, adapters.ToSocket(s))
		got, err := c.Eval(redistest.Within(t, redistest.Soon), counting, []string{a.Name}, []string{""})
		wantReply(t, "1", got, err)
	})
}

func TestAdapterTLSAndUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.TLS(), redistest.ACL(
		"user default off",
		"user limiter on >secret resetkeys ~own:* -@all +evalsha +eval +info +ping +incr",
	))
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		c := a.Dial(t, adapters.Route{Addrs: []string{s.TLSAddr()}, TLS: s.TLSConfig(), User: "limiter", Password: "secret"})
		ctx := redistest.Within(t, redistest.Soon)
		got, err := c.Eval(ctx, counting, []string{"own:" + a.Name}, []string{""})
		wantReply(t, "1", got, err)
		_, err = c.Eval(ctx, counting, []string{"other:" + a.Name}, []string{""})
		wantServerError(t, err, "NOPERM ")
	})
}
