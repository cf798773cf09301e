package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

//go:embed scripts/*.lua
var sources embed.FS

// script is a source, and the digest that the server names it by.
type script struct{ source, sha string }

// newScript joins some of the files in the folder scripts.
func newScript(names ...string) *script {
	var b strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err) // TestScriptsHaveTheirFragments makes all of them
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // the server names scripts by it
	return &script{b.String(), hex.EncodeToString(sum[:])}
}

// The scripts of each algorithm: one decides a single request, one ends a reservation or a lease, and one forgets a state.
var decideScripts, finishScripts, resetScripts setScripts

var (
	banScript  = newScript("now", "prelude", "ban")
	bansScript = newScript("now", "bans")
)

// decideFiles, finishFiles and resetFiles return what the scripts of one algorithm are composed of.
func decideFiles(set uint) []string {
	files := []string{"now"}
	if quick := kinds[bits.TrailingZeros(set)].quick; quick != "" {
		files = append(files, quick)
	}
	return append(append(files, kindFiles(set)...), "decide")
}

func finishFiles(set uint) []string {
	return append(append([]string{"now"}, kindFiles(set)...), "holds", "finish")
}

func resetFiles(set uint) []string {
	if grantable&set == 0 {
		return []string{"reset"}
	}
	return append(append([]string{"now"}, kindFiles(set)...), "reset_held")
}

// setScripts are scripts for one algorithm or several at once, made when they are first used: all of them are
// megabytes. They are indexed by the set of the algorithms.
type setScripts [1 << len(kinds)]atomic.Pointer[script]

// get returns the script for a set of algorithms. files returns what it is composed of.
func (s *setScripts) get(set uint, files func(set uint) []string) *script {
	if sc := s[set].Load(); sc != nil {
		return sc
	}
	sc := newScript(files(set)...)
	s[set].Store(sc)
	return sc
}

// kindFiles returns the files for a set of algorithms: the prelude, the fragments that the
// algorithms share, each once, and the algorithms.
func kindFiles(set uint) []string {
	files := []string{"prelude"}
	for _, fragment := range [...]string{"product", "ticks", "sets", "escrow"} {
		if set&fragmentUsers[fragment] != 0 {
			files = append(files, fragment)
		}
	}
	for i := range kinds {
		if set&(1<<i) != 0 {
			files = append(files, kinds[i].script)
		}
	}
	return files
}

// fragmentUsers are the sets of algorithms that use each fragment.
var fragmentUsers = map[string]uint{
	"product": 1<<algo.KindBucket | 1<<algo.KindLeaky | 1<<algo.KindSlidingCounter,
	"ticks":   1<<algo.KindBucket | 1<<algo.KindLeaky,
	"sets":    1<<algo.KindSlidingLog | 1<<algo.KindConcurrency,
	"escrow":  grantable,
}

// grantable are the algorithms whose units can be granted to processes.
const grantable = 1<<algo.KindBucket | 1<<algo.KindFixedWindow | 1<<algo.KindSlidingWindow | 1<<algo.KindSlidingCounter | 1<<algo.KindSlidingLog

// run runs a script by its digest, or by its source if the server does not have it. It
// sends nothing else again.
func (s *Store) run(ctx context.Context, sc *script, keys, args []string) (string, error) {
	if s.closed.Load() {
		return "", sluice.ErrClosed
	}
	reply, err := s.client.EvalSHA(ctx, sc.sha, keys, args)
	if err == nil {
		return reply, nil
	}
	var answer *ServerError
	if errors.As(err, &answer) && strings.HasPrefix(answer.Text, "NOSCRIPT") {
		reply, err = s.client.Eval(ctx, sc.source, keys, args)
	}
	if err == nil {
		return reply, nil
	}
	err = failure(err)
	if s.cluster && !errors.As(err, &answer) {
		s.shards.hurry()
	}
	return "", err
}

// failure wraps a client's error, with sluice.ErrUnknownOutcome if something may have changed.
func failure(err error) error {
	var answer *ServerError
	switch {
	case errors.As(err, &answer) && strings.Contains(answer.Text, "WRONGTYPE"):
		return fmt.Errorf("redisstore: %w; delete the key, or give Sluice a prefix of its own: %w", sluice.ErrForeignState, err)
	case errors.As(err, &answer), errors.Is(err, ErrNotSent): // they begin with the name of the package
		return err
	default:
		return fmt.Errorf("redisstore: %w: %w", sluice.ErrUnknownOutcome, err)
	}
}
