package redistest

import (
	"context"
	"crypto/sha1" //nolint:gosec // the server names scripts by it
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	"github.com/sluicehq/sluice/redisstore"
)

// clocked is a client whose scripts read another clock than the server's.
type clocked struct {
	redisstore.Client
	now func() int64

	mu   sync.RWMutex
	shas map[string]string // of a script as it is, that of the script as it is sent
}

// WithClock returns a client that lets scripts take the time from now, in
// microseconds since the Unix epoch, and keep what they write for very long: the
// clock of a test runs faster than the server's. It rewrites what is sent, so that
// the store under test is the one that programs use.
func WithClock(c redisstore.Client, now func() int64) redisstore.Client {
	return &clocked{Client: c, now: now, shas: make(map[string]string)}
}

// rewriter puts the arguments in place of the server's time, and millennia in place of
// times to live.
var rewriter = strings.NewReplacer(
	"redis.call('TIME')", "{ table.remove(ARGV, #ARGV - 1), table.remove(ARGV) }",
	"'PX', ", "'PX', 1e14 + ",
	"'PEXPIRE', key, ", "'PEXPIRE', key, 1e14 + ",
)

func (c *clocked) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	c.mu.RLock()
	sent, ok := c.shas[sha]
	c.mu.RUnlock()
	if !ok {
		return "", &redisstore.ServerError{Text: "NOSCRIPT: not rewritten yet"}
	}
	return c.Client.EvalSHA(ctx, sent, keys, c.stamped(args))
}

func (c *clocked) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	sent := rewriter.Replace(source)
	c.mu.Lock()
	c.shas[digest(source)] = digest(sent)
	c.mu.Unlock()
	return c.Client.Eval(ctx, sent, keys, c.stamped(args))
}

// stamped returns arguments with the time at their end, as TIME tells it.
func (c *clocked) stamped(args []string) []string {
	now := c.now()
	return append(args[:len(args):len(args)],
		strconv.FormatInt(now/1_000_000, 10), strconv.FormatInt(now%1_000_000, 10))
}

func digest(source string) string {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // the server names scripts by it
	return hex.EncodeToString(sum[:])
}
