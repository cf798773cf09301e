package goredisstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sluicehq/sluice/redisstore"
)

// New returns a store over a *redis.Client or a *redis.ClusterClient. Close of the store does
// not close the client.
//
// The client's options must have MaxRetries -1 and ContextTimeoutEnabled true, also if
// redis.NewFailoverClient or redis.NewUniversalClient makes it. Derive makes such a client
// from one with other options.
//
// New adds a hook to the client. An attempt to connect that takes long is repeated beside the first
// one, and connections to a server that does not answer are not used again. Without the hook, a store would be
// late when the server can be reached again. For a cluster, the hook is for nodes that the client has
// not called before. A client with a client-side cache keeps its silent connections.
// The error names an option of the client that would break limits, or an option of the store.
func New(c redis.UniversalClient, o redisstore.Options) (*redisstore.Store, error) {
	scripts, err := NewClient(c)
	if err != nil {
		return nil, err
	}
	o.Cluster = scripts.Cluster()
	return redisstore.New(scripts, o)
}

// NewClient returns the client that New passes to redisstore.New. It is for programs that wrap the client. They then call
// redisstore.New, with Options.Cluster set to the result of Cluster. The error names an option of the client that would
// break limits.
func NewClient(c redis.UniversalClient) (*Client, error) {
	// Go-redis stores the option -1 as 0, and as -1 for a cluster.
	var retries int
	var deadlines bool
	switch c := c.(type) {
	case *redis.Client:
		retries, deadlines = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		retries, deadlines = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	default:
		return nil, unsuitable(c)
	}
	if retries > 0 {
		return nil, fmt.Errorf("goredisstore: the client sends a command up to %d times again, which charges twice: set MaxRetries to -1 in its options, or pass what Derive makes from it", retries)
	}
	if !deadlines {
		return nil, errors.New("goredisstore: the client does not heed deadlines of contexts: set ContextTimeoutEnabled to true in its options, or pass what Derive makes from it")
	}
	redialNodes(c)
	return &Client{redis: c}, nil
}

// unsuitable returns the error about a client of another type.
func unsuitable(c redis.UniversalClient) error {
	if _, ok := c.(*redis.Ring); ok {
		return errors.New("goredisstore: a *redis.Ring moves keys to another server when one is down, and limits would start again there: pass a *redis.Client or a *redis.ClusterClient")
	}
	return fmt.Errorf("goredisstore: a %T may send a command again: pass a *redis.Client or a *redis.ClusterClient", c)
}

// Derive returns a client to the same servers as another client, with the options that New
// requires: MaxRetries -1 and ContextTimeoutEnabled true. It also sets DialerRetries to 1, so
// that a call does not wait for a server that is down. All other options are the same.
//
// It works for clients of one server, of a cluster, and of sentinels, and needs no
// connection. The derived client has a pool of its own, without the other client's hooks, and
// without a cache and maintenance notifications. The caller closes both clients. With
// sentinels, the derived client finds the master through the other client, so close that
// one last.
// The error names an option of the client that would break limits.
func Derive(c redis.UniversalClient) (redis.UniversalClient, error) {
	switch c := c.(type) {
	case *redis.Client:
		o := *c.Options()
		o.MaxRetries, o.ContextTimeoutEnabled, o.DialerRetries = -1, true, 1
		unsetTimes(&o.ReadTimeout, &o.WriteTimeout, &o.MinRetryBackoff, &o.MaxRetryBackoff)
		o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
		o.PushNotificationProcessor = nil // it belongs to the other client
		o.MaintNotificationsConfig = noMaintenance()
		return redis.NewClient(&o), nil
	case *redis.ClusterClient:
		o := *c.Options()
		o.MaxRetries, o.ContextTimeoutEnabled, o.DialerRetries = -1, true, 1
		unsetTimes(&o.ReadTimeout, &o.WriteTimeout, &o.MinRetryBackoff, &o.MaxRetryBackoff)
		if o.MaxRedirects == 0 {
			o.MaxRedirects = -1
		}
		o.MaintNotificationsConfig = noMaintenance()
		return redis.NewClusterClient(&o), nil
	default:
		return nil, unsuitable(c)
	}
}

// unsetTimes turns times that go-redis has completed into options again: it keeps the option
// -1, for none, as 0, and the option -2 as -1.
func unsetTimes(times ...*time.Duration) {
	for _, t := range times {
		if *t <= 0 {
			*t--
		}
	}
}

// noMaintenance turns notifications off that would extend the timeouts of calls.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
