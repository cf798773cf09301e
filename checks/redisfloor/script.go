package redisfloor

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// script is a script that a server knows.
type script struct {
	client rueidis.Client
	sha    string
}

// load makes a script known to the server.
func load(ctx context.Context, client rueidis.Client, source string) (script, error) {
	sha, err := client.Do(ctx, client.B().ScriptLoad().Script(source).Build()).ToString()
	return script{client, sha}, err
}

// run runs the script once, whatever comes of it.
func (s script) run(ctx context.Context, keys, args []string) rueidis.RedisResult {
	return s.client.Do(ctx, s.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// goScript is a script that is run with go-redis.
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
