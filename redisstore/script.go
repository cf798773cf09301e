package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

var (
	//go:embed scripts/now.lua
	nowText string
	//go:embed scripts/prelude.lua
	prelude string
	//go:embed scripts/product.lua
	productText string
	//go:embed scripts/ticks.lua
	ticksText string
	//go:embed scripts/sets.lua
	setsText string
	//go:embed scripts/decide.lua
	decideMain string
	//go:embed scripts/batch.lua
	batchMain string
	//go:embed scripts/batch_quick.lua
	batchQuick string
	//go:embed scripts/finish.lua
	finishMain string
	//go:embed scripts/reset.lua
	resetMain string
	//go:embed scripts/ban.lua
	banMain string
	//go:embed scripts/bans.lua
	bansMain string
)

// script is a source, and the digest by which the server knows it.
type script struct{ source, sha string }

func newScript(texts ...string) *script {
	source := strings.Join(texts, "\n")
	sum := sha1.Sum([]byte(source)) //nolint:gosec // the server names scripts by it
	return &script{source, hex.EncodeToString(sum[:])}
}

// The scripts of each algorithm: one decides a single request, one ends what that
// has granted.
var (
	decideScripts, finishScripts = compose()
	resetScript                  = newScript(resetMain)
	banScript                    = newScript(nowText, prelude, banMain)
	bansScript                   = newScript(nowText, bansMain)
)

// fragments are the texts that several kinds share.
var fragments = [...]string{productText, ticksText, setsText}

// Bits of kind.needs, in the order of fragments.
const (
	needProduct = 1 << iota
	needTicks
	needSets
)

// fragmentsOf returns the fragments that are needed, each once.
func fragmentsOf(needs uint) string {
	var b strings.Builder
	for i, text := range fragments {
		if needs&(1<<i) != 0 {
			b.WriteString(text)
		}
	}
	return b.String()
}

func compose() (decide, finish [len(kinds)]*script) {
	for i := algo.KindBucket; int(i) < len(kinds); i++ {
		k := &kinds[i]
		decide[i] = newScript(nowText, k.quick, prelude, fragmentsOf(k.needs), k.script, decideMain)
		finish[i] = newScript(nowText, prelude, fragmentsOf(k.needs), k.script, finishMain)
	}
	return decide, finish
}

// run runs a script: by its digest, and by its source if the server does not know
// it. Nothing else is sent twice.
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
	return "", failure(err)
}

// failure says of an error whether anything may have changed.
func failure(err error) error {
	var answer *ServerError
	switch {
	case errors.As(err, &answer):
		return err
	case errors.Is(err, ErrNotSent):
		return fmt.Errorf("redisstore: %w", err)
	default:
		return fmt.Errorf("redisstore: %w: %w", sluice.ErrUnknownOutcome, err)
	}
}
