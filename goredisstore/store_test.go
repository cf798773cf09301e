package goredisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/redisstore"
)

func TestNewChecksTheClient(t *testing.T) {
	const deadlines = true
	failover := func(retries int) *redis.FailoverOptions {
		return &redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, MaxRetries: retries, ContextTimeoutEnabled: deadlines}
	}
	tests := []struct {
		name   string
		client redis.UniversalClient
		fault  string // part of the error; empty: none
	}{
		{"single", redis.NewClient(&redis.Options{MaxRetries: -1, ContextTimeoutEnabled: deadlines}), ""},
		{"single, defaults", redis.NewClient(&redis.Options{}), "set MaxRetries to -1"},
		{"single, retries", redis.NewClient(&redis.Options{MaxRetries: 1, ContextTimeoutEnabled: deadlines}), "set MaxRetries to -1"},
		{"single, no deadlines", redis.NewClient(&redis.Options{MaxRetries: -1}), "set ContextTimeoutEnabled to true"},
		{"cluster", redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: deadlines}), ""},
		{"cluster, -1", redis.NewClusterClient(&redis.ClusterOptions{MaxRetries: -1, ContextTimeoutEnabled: deadlines}), ""},
		{"cluster, retries", redis.NewClusterClient(&redis.ClusterOptions{MaxRetries: 2, ContextTimeoutEnabled: deadlines}), "set MaxRetries to -1"},
		{"cluster, no deadlines", redis.NewClusterClient(&redis.ClusterOptions{}), "set ContextTimeoutEnabled to true"},
		{"sentinel", redis.NewFailoverClient(failover(-1)), ""},
		{"sentinel, defaults", redis.NewFailoverClient(failover(0)), "set MaxRetries to -1"},
		{"universal", redis.NewUniversalClient(&redis.UniversalOptions{MaxRetries: -1, ContextTimeoutEnabled: deadlines}), ""},
		{"ring", redis.NewRing(&redis.RingOptions{MaxRetries: -1, ContextTimeoutEnabled: deadlines}), "*redis.Ring"},
		{"another type", struct{ *redis.Client }{}, "pass a *redis.Client or a *redis.ClusterClient"},
		{"none", nil, "pass a *redis.Client or a *redis.ClusterClient"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store, err := New(test.client, redisstore.Options{})
			if test.fault == "" {
				if err != nil || store == nil {
					t.Fatalf("New returns %v, %v", store, err)
				}
				return
			}
			if store != nil || err == nil || !strings.HasPrefix(err.Error(), "goredisstore: ") || !strings.Contains(err.Error(), test.fault) {
				t.Fatalf("New returns %v, %v; want an error with %q", store, err, test.fault)
			}
		})
	}
}
