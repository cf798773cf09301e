package rueidisstore

import (
	"errors"
	"reflect"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/redisstore"
)

// New returns a store over a client, which stays the caller's to close. It finds out
// by itself whether the client speaks to a cluster. Decisions want a deadline in their
// context: rueidis alone notices only after ten seconds that a server has fallen silent.
func New(c rueidis.Client, o redisstore.Options) (*redisstore.Store, error) {
	scripts, err := NewClient(c)
	if err != nil {
		return nil, err
	}
	o.Cluster = c.Mode() == rueidis.ClientModeCluster
	return redisstore.New(scripts, o)
}

// NewClient returns what New gives to redisstore, for who puts something in between.
// For a cluster, redisstore.Options.Cluster must be set then.
func NewClient(c rueidis.Client) (redisstore.Client, error) {
	if c == nil {
		return nil, errors.New("rueidisstore: there is no client: pass the one that rueidis.NewClient returned")
	}
	if replaysExpired(c) {
		return nil, errors.New("rueidisstore: the client sends calls again that a connection leaves open when its ConnLifetime ends, which charges twice: set no ConnLifetime")
	}
	return &client{redis: c, lane: newLane(c.Mode() == rueidis.ClientModeStandalone)}, nil
}

// replaysExpired tells whether connections of the client have a lifetime. When it ends,
// rueidis repeats whatever was not answered in a second, also scripts that may have
// run. Only a private field tells; checks/redis holds that it does. A client wrapped
// in another's type cannot be seen through.
func replaysExpired(c rueidis.Client) bool {
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return false
	}
	if f := v.FieldByName("hasLftm"); f.IsValid() && f.Kind() == reflect.Bool {
		return f.Bool()
	}
	opt := v.FieldByName("opt")
	if !opt.IsValid() || opt.Kind() != reflect.Pointer || opt.IsNil() || opt.Elem().Kind() != reflect.Struct {
		return false
	}
	f := opt.Elem().FieldByName("ConnLifetime")
	return f.IsValid() && f.CanInt() && f.Int() > 0
}
