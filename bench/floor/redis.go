package floor

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

//go:embed minimal.lua
var minimalSource string

//go:embed return1.lua
var return1Source string

//go:embed batch.lua
var batchSource string

// MinimalSource returns a token bucket as a script, and nothing else. Its arguments are the microseconds of a unit, and of
// the burst.
func MinimalSource() string { return minimalSource }

// Minimal is a token bucket of one script, run with rueidis. It is safe for
// concurrent use.
type Minimal struct {
	script script
	args   []string
}

// NewMinimal returns a token bucket that gets one unit back in each time every,
// in whole microseconds, and holds at most burst.
func NewMinimal(ctx context.Context, client rueidis.Client, every time.Duration, burst int) (*Minimal, error) {
	s, err := load(ctx, client, minimalSource)
	return &Minimal{s, minimalArgs(every, burst)}, err
}

// minimalArgs returns the arguments of minimal.lua.
func minimalArgs(every time.Duration, burst int) []string {
	us := every.Microseconds()
	return []string{strconv.FormatInt(us, 10), strconv.FormatInt(us*int64(burst), 10)}
}

// Take takes one unit for key and reports whether it was admitted.
func (m *Minimal) Take(ctx context.Context, key string) (bool, error) {
	reply, err := m.script.run(ctx, []string{key}, m.args).AsIntSlice()
	return admitted(reply, err)
}

// admitted reads the reply of minimal.lua.
func admitted(reply []int64, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	if len(reply) != 4 {
		return false, fmt.Errorf("floor: a reply of %d numbers", len(reply))
	}
	return reply[0] == 1, nil
}

// MinimalGo is Minimal, run with go-redis.
type MinimalGo struct {
	script      goScript
	every, span any
}

// NewMinimalGo returns what NewMinimal does, over go-redis.
func NewMinimalGo(ctx context.Context, client redis.UniversalClient, every time.Duration, burst int) (*MinimalGo, error) {
	s, err := loadGo(ctx, client, minimalSource)
	args := minimalArgs(every, burst)
	return &MinimalGo{s, args[0], args[1]}, err
}

// Take takes one unit for key and reports whether it was admitted.
func (m *MinimalGo) Take(ctx context.Context, key string) (bool, error) {
	return admitted(m.script.run(ctx, []string{key}, m.every, m.span).Int64Slice())
}

// Return1 runs a script that does nothing.
type Return1 struct{ script script }

// NewReturn1 returns a limit that admits every request.
func NewReturn1(ctx context.Context, client rueidis.Client) (*Return1, error) {
	s, err := load(ctx, client, return1Source)
	return &Return1{s}, err
}

// Take reports that one unit for key was admitted.
func (r *Return1) Take(ctx context.Context, key string) (bool, error) {
	one, err := r.script.run(ctx, []string{key}, nil).AsInt64()
	return one == 1, err
}

// Batch reads and writes four states of a key.
type Batch struct {
	script script
	args   []string
}

// NewBatch returns a batch that writes 16 digits into each state, as
// minimal.lua does.
func NewBatch(ctx context.Context, client rueidis.Client, ttl time.Duration) (*Batch, error) {
	s, err := load(ctx, client, batchSource)
	return &Batch{s, []string{
		strconv.FormatInt(time.Now().UnixMicro(), 10),
		strconv.FormatInt(ttl.Milliseconds(), 10),
	}}, err
}

// Take reads and writes the states, and reports that one unit of each was
// admitted.
func (b *Batch) Take(ctx context.Context, key string) (bool, error) {
	keys := []string{key + ":1", key + ":2", key + ":3", key + ":4"}
	err := b.script.run(ctx, keys, b.args).Error()
	return err == nil || rueidis.IsRedisNil(err), ignoreNil(err)
}

// ignoreNil returns no error for a state that did not exist.
func ignoreNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

// A script is a script that a server has loaded.
type script struct {
	client rueidis.Client
	sha    string
}

// load loads a script into the server.
func load(ctx context.Context, client rueidis.Client, source string) (script, error) {
	sha, err := client.Do(ctx, client.B().ScriptLoad().Script(source).Build()).ToString()
	return script{client, sha}, err
}

// run runs the script once, without retries.
func (s script) run(ctx context.Context, keys, args []string) rueidis.RedisResult {
	return s.client.Do(ctx, s.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// A goScript is a script that go-redis runs.
type goScript struct {
	client redis.UniversalClient
	sha    string
}

func loadGo(ctx context.Context, client redis.UniversalClient, source string) (goScript, error) {
	sha, err := client.ScriptLoad(ctx, source).Result()
	return goScript{client, sha}, err
}

func (s goScript) run(ctx context.Context, keys []string, args ...any) *redis.Cmd {
	return s.client.EvalSha(ctx, s.sha, keys, args...)
}
