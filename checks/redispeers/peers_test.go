package redispeers

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/checks/peers"
	"github.com/sluicehq/sluice/checks/redistest"
)

// Every adapter admits its burst for each key and then denies. This is what
// makes their speeds comparable; it is no test of the peers.
func TestAdaptersLimit(t *testing.T) {
	const burst, keys = 5, 10
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			l, end, err := p.New(client, peers.Limit{Burst: burst, Every: time.Hour, Window: 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := end(); err != nil {
					t.Error(err)
				}
			}()
			for n := range 2 * burst {
				for k := range keys {
					admitted, err := l.Take(t.Context(), fmt.Sprintf("%d:%d", i, k))
					if err != nil {
						t.Fatal(err)
					}
					if want := n < burst; admitted != want {
						t.Errorf("request %d of key %d: admitted is %v, want %v", n+1, k, admitted, want)
					}
				}
			}
		})
	}
}

// A limiter whose server is gone tells so, and admits nothing.
func TestAdaptersTellErrors(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	limiters := map[string]Limiter{}
	for _, p := range All() {
		l, end, err := p.New(client, peers.Limit{Burst: 1, Every: time.Hour, Window: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		})
		limiters[p.Name] = l
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for name, l := range limiters {
		if admitted, err := l.Take(t.Context(), "key"); err == nil || admitted {
			t.Errorf("%s: admitted is %v, error %v", name, admitted, err)
		}
	}
}
