package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/redisstore"
)

// direct is a client that sends what it is given.
type direct struct{ s *Server }

func (d direct) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	return d.run(ctx, "EVALSHA", sha, keys, args)
}

func (d direct) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	return d.run(ctx, "EVAL", source, keys, args)
}

func (d direct) run(ctx context.Context, command, script string, keys, args []string) (string, error) {
	all := append([]string{command, script, strconv.Itoa(len(keys))}, keys...)
	text, err := d.s.Text(ctx, append(all, args...)...)
	var answer Error
	if errors.As(err, &answer) {
		return "", &redisstore.ServerError{Text: string(answer)}
	}
	return text, err
}

func (direct) Masters(context.Context) ([]redisstore.Master, error) {
	return []redisstore.Master{{}}, nil
}

func (d direct) Info(ctx context.Context, _ string) (string, error) { return d.s.Text(ctx, "INFO") }

func (direct) Scan(context.Context, string, uint64, string, int) ([]string, uint64, error) {
	return nil, 0, errors.New("nothing is scanned here")
}

// Scripts get the time of the clock, by their source and by their digest.
func TestWithClock(t *testing.T) {
	s := Start(t)
	ctx := short(t)
	var now int64
	c := WithClock(direct{s}, func() int64 { return now })
	const source = `
		local time = redis.call('TIME')
		local key, ms = KEYS[1], 5
		redis.call('SET', key, time[1], 'PX', ms)
		redis.call('PEXPIRE', key, ms)
		return string.format('%s+%s %s of %d', time[1], time[2], ARGV[1], #ARGV)`
	sha, keys, args := Digest(source), []string{"a"}, []string{"x", "y"}
	noscript := func() {
		t.Helper()
		_, err := c.EvalSHA(ctx, sha, keys, args)
		var answer *redisstore.ServerError
		if !errors.As(err, &answer) || !strings.HasPrefix(answer.Text, "NOSCRIPT") {
			t.Errorf("a script that the server does not know: %v, want NOSCRIPT", err)
		}
	}
	noscript()
	// The clock jumps by centuries, and goes back.
	for _, step := range []struct {
		now  int64
		want string
	}{
		{0, "0+0"},
		{1_700_000_000_123_456, "1700000000+123456"},
		{9_000_000_000_000_007, "9000000000+7"},
		{1_000_000, "1+0"},
		{-1, "-1+999999"},
	} {
		now = step.now
		if got, err := c.Eval(ctx, source, keys, args); got != step.want+" x of 2" || err != nil {
			t.Errorf("at %d by its source: %q, %v; want %s", now, got, err, step.want)
		}
		if got, err := c.EvalSHA(ctx, sha, keys, args); got != step.want+" x of 2" || err != nil {
			t.Errorf("at %d by its digest: %q, %v; want %s", now, got, err, step.want)
		}
	}
	if ttl, err := s.Int(ctx, "PTTL", "a"); ttl < 9e13 || err != nil {
		t.Errorf("the key lives for %d ms, %v; want longer than any test", ttl, err)
	}
	if _, err := s.Do(ctx, "SCRIPT", "FLUSH"); err != nil {
		t.Fatal(err)
	}
	noscript()
	if text, err := c.Info(ctx, ""); !strings.Contains(text, "redis_version:") || err != nil {
		t.Errorf("INFO: %q, %v", text, err)
	}
}

func TestWithClockRefusesWhatItCannotRewrite(t *testing.T) {
	s := Start(t)
	c := WithClock(direct{s}, func() int64 { return 0 })
	for _, call := range []string{
		`redis.call( 'TIME' )`,
		`redis.call('SET', KEYS[1], 1, 'PX',1)`,
		`redis.call('PEXPIRE', KEYS[1], 1)`,
		`redis.call('EXPIRE', key, 1)`,
	} {
		source := fmt.Sprintf("local key = KEYS[1]; %s; return 'ran'", call)
		if got, err := c.Eval(short(t), source, []string{"a"}, nil); err == nil {
			t.Errorf("%s: %q, want an error", call, got)
		}
	}
}
