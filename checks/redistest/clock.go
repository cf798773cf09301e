package redistest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
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
	shas map[string]string // from the digest of a script to the digest of the script that is sent
}

// WithClock returns a client that lets scripts take the time from now, in
// microseconds since the Unix epoch, and keep what they write for very long: the
// clock of a test runs faster than the server's. It rewrites what is sent, so that
// the store under test is the store that programs use, and refuses a script that it
// cannot rewrite. Calls may call now at the same time.
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

// EvalSHA implements redisstore.Client.
func (c *clocked) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	c.mu.RLock()
	sent, ok := c.shas[sha]
	c.mu.RUnlock()
	if !ok {
		return "", &redisstore.ServerError{Text: "NOSCRIPT: not rewritten yet"}
	}
	return c.Client.EvalSHA(ctx, sent, keys, c.stamped(args))
}

// Eval implements redisstore.Client.
func (c *clocked) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	sent := rewriter.Replace(source)
	left := strings.Count(sent, "'TIME'") +
		strings.Count(sent, "'PX'") - strings.Count(sent, "'PX', 1e14 + ") +
		strings.Count(sent, "EXPIRE") - strings.Count(sent, "'PEXPIRE', key, 1e14 + ")
	if left != 0 {
		return "", fmt.Errorf("redistest: a script spells %d uses of TIME, PX or EXPIRE in a way that WithClock does not know", left)
	}
	c.mu.Lock()
	c.shas[Digest(source)] = Digest(sent)
	c.mu.Unlock()
	return c.Client.Eval(ctx, sent, keys, c.stamped(args))
}

// stamped returns arguments with the time at their end, in the form of TIME.
func (c *clocked) stamped(args []string) []string {
	const second = 1_000_000
	now := c.now()
	seconds, micros := now/second, now%second
	if micros < 0 { // before 1970
		seconds, micros = seconds-1, micros+second
	}
	return append(args[:len(args):len(args)],
		strconv.FormatInt(seconds, 10), strconv.FormatInt(micros, 10))
}

// Digest is what servers know a script by.
func Digest(source string) string {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // the server names scripts by it
	return hex.EncodeToString(sum[:])
}
