package goredisstore

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/redisstore"
)

// New returns a store over a *redis.Client or a *redis.ClusterClient, which stays the
// caller's to close. Its options must have MaxRetries -1 and ContextTimeoutEnabled
// true, also where redis.NewFailoverClient or redis.NewUniversalClient makes it. New
// finds out by itself whether the client speaks to a cluster.
func New(c redis.UniversalClient, o redisstore.Options) (*redisstore.Store, error) {
	scripts, err := NewClient(c)
	if err != nil {
		return nil, err
	}
	_, o.Cluster = c.(*redis.ClusterClient)
	return redisstore.New(scripts, o)
}

// NewClient returns what New gives to redisstore, for who puts something in between.
// For a cluster, redisstore.Options.Cluster must be set then.
func NewClient(c redis.UniversalClient) (redisstore.Client, error) {
	// Go-redis stores the option -1 as 0, and as -1 for a cluster.
	var retries int
	var deadlines bool
	switch c := c.(type) {
	case *redis.Client:
		retries, deadlines = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		retries, deadlines = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return nil, errors.New("goredisstore: a *redis.Ring moves keys to another server when one is down, and limits would start again there: pass a *redis.Client or a *redis.ClusterClient")
	default:
		return nil, fmt.Errorf("goredisstore: nothing is known about retries of a %T: pass a *redis.Client or a *redis.ClusterClient", c)
	}
	if retries > 0 {
		return nil, fmt.Errorf("goredisstore: the client sends a command up to %d times again, which charges twice: set MaxRetries to -1 in its options", retries)
	}
	if !deadlines {
		return nil, errors.New("goredisstore: the client does not heed deadlines of contexts: set ContextTimeoutEnabled to true in its options")
	}
	return &client{redis: c}, nil
}
