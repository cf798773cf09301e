package redistest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluicehq/sluice/redisstore"
)

// Scripts are what a client sends in place of scripts. They are safe for concurrent use, also by several clients.
type Scripts struct {
	rewrite func(source string) (string, error)
	sent    sync.Map // from the digest of a script to its sentScript
}

type sentScript struct{ source, digest string }

// NewScripts returns the scripts that a function makes of others.
func NewScripts(rewrite func(source string) (string, error)) *Scripts {
	return &Scripts{rewrite: rewrite}
}

// rewriting is a client that sends other scripts than it gets, with further arguments.
type rewriting struct {
	redisstore.Client
	scripts *Scripts
	further func() []string
}

// WithScripts returns a client that sends scripts in place of the scripts of a store, with further arguments at their end.
func WithScripts(c redisstore.Client, scripts *Scripts, further func() []string) redisstore.Client {
	return &rewriting{c, scripts, further}
}

// EvalSHA implements redisstore.Client.
func (c *rewriting) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	sent, ok := c.scripts.sent.Load(sha)
	if !ok {
		return "", &redisstore.ServerError{Text: "NOSCRIPT: not rewritten yet"}
	}
	return c.Client.EvalSHA(ctx, sent.(sentScript).digest, keys, slices.Concat(args, c.further()))
}

// Eval implements redisstore.Client.
func (c *rewriting) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	digest := Digest(source)
	sent, ok := c.scripts.sent.Load(digest)
	if !ok {
		text, err := c.scripts.rewrite(source)
		if err != nil {
			return "", err
		}
		sent = sentScript{text, Digest(text)}
		c.scripts.sent.Store(digest, sent)
	}
	return c.Client.Eval(ctx, sent.(sentScript).source, keys, slices.Concat(args, c.further()))
}

// WithClock returns a client that lets scripts take the time from now, in
// microseconds since the Unix epoch, and keep what they write for very long: the
// clock of a test runs faster than the server's. It rewrites what is sent, so that
// the store under test is the store that programs use, and refuses a script that it
// cannot rewrite. Calls may call now at the same time.
func WithClock(c redisstore.Client, now func() int64) redisstore.Client {
	return WithScripts(c, clockScripts, Stamp(now))
}

// clockScripts are rewritten once for all the stores of a test program.
var clockScripts = NewScripts(func(source string) (string, error) {
	sent := rewriter.Replace(source)
	left := strings.Count(sent, "'TIME'") +
		strings.Count(sent, "'PX'") - strings.Count(sent, "'PX', 1e14 + ") +
		strings.Count(sent, "EXPIRE") - strings.Count(sent, "'PEXPIRE', key, 1e14 + ")
	if left != 0 {
		return "", fmt.Errorf("redistest: a script spells %d uses of TIME, PX or EXPIRE in a way that WithClock does not know", left)
	}
	return sent, nil
})

// rewriter puts the arguments in place of the server's time, and millennia in place of
// times to live.
var rewriter = strings.NewReplacer(
	"redis.call('TIME')", "{ table.remove(ARGV, #ARGV - 1), table.remove(ARGV) }",
	"'PX', ", "'PX', 1e14 + ",
	"'PEXPIRE', key, ", "'PEXPIRE', key, 1e14 + ",
)

// Stamp returns a function that returns the time as two arguments, in the form of TIME.
func Stamp(now func() int64) func() []string {
	return func() []string {
		const second = 1_000_000
		now := now()
		seconds, micros := now/second, now%second
		if micros < 0 { // before 1970
			seconds, micros = seconds-1, micros+second
		}
		return []string{strconv.FormatInt(seconds, 10), strconv.FormatInt(micros, 10)}
	}
}

// Digest is what servers know a script by.
func Digest(source string) string {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // the server names scripts by it
	return hex.EncodeToString(sum[:])
}
