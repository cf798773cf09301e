package goredisstore

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestDerivedClientsHaveTheOptions makes clients with various options, and compares their options with the options of
// the derived clients, as far as clients show them.
func TestDerivedClientsHaveTheOptions(t *testing.T) {
	tests := []struct {
		name   string
		client redis.UniversalClient
	}{
		{"single, defaults", redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})},
		{"single, no times", redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: -1, WriteTimeout: -2, MaxRetries: 7, MaxRetryBackoff: -1})},
		{"single, settings", redis.NewClient(&redis.Options{
			Network: "unix", Addr: "/run/redis.sock", DB: 3, Username: "user", Password: "secret", PoolSize: 7,
			ReadTimeout: time.Second, TLSConfig: &tls.Config{ServerName: "redis", MinVersion: tls.VersionTLS12}, Protocol: 2,
		})},
		{"sentinel, defaults", redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, DB: 2})},
		{"cluster, defaults", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})},
		{"cluster, settings", redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, MaxRetries: 2, MaxRedirects: -1, ReadTimeout: -1, Username: "user", Password: "secret",
		})},
		{"universal", redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			defer test.client.Close()
			before := settings(test.client)
			derived, err := Derive(test.client)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := New(derived, redisstore.Options{}); err != nil {
				t.Errorf("New refuses the derived client: %v", err)
			}
			if got := settings(derived); got != before {
				t.Errorf("the derived client has\n%s, want\n%s", got, before)
			}
			if err := derived.Close(); err != nil {
				t.Error(err)
			}
			if got := settings(test.client); got != before {
				t.Errorf("the client has changed to\n%s, from\n%s", got, before)
			}
		})
	}
	for _, c := range []redis.UniversalClient{redis.NewRing(&redis.RingOptions{}), nil} {
		if derived, err := Derive(c); derived != nil || err == nil || !strings.HasPrefix(err.Error(), "goredisstore: ") {
			t.Errorf("Derive of a %T returns %v, %v", c, derived, err)
		}
	}
}

// settings writes the options that a derived client must keep.
func settings(c redis.UniversalClient) string {
	switch c := c.(type) {
	case *redis.Client:
		o := c.Options()
		return fmt.Sprintln(o.Network, o.Addr, o.DB, o.Username, o.Password, o.PoolSize, o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.TLSConfig != nil, o.Protocol, o.MaxRetryBackoff)
	case *redis.ClusterClient:
		o := c.Options()
		return fmt.Sprintln(o.Addrs, o.Username, o.Password, o.PoolSize, o.ReadTimeout, o.WriteTimeout, o.MaxRedirects, o.DialTimeout)
	default:
		return ""
	}
}
