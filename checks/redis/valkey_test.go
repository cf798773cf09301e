package redis

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// All tests of this package run over redis-server, and over valkey-server if
// SLUICE_REDIS_SERVER says so. These run over Valkey in any case.

func TestValkeyAdapterReplies(t *testing.T) { redistest.RunOverValkey(t, TestAdapterReplies) }
func TestValkeyAdapterCluster(t *testing.T) { redistest.RunOverValkey(t, TestAdapterCluster) }

// TestValkeyCheck: the check at the start distinguishes Valkey from Redis.
func TestValkeyCheck(t *testing.T) {
	t.Parallel()
	redistest.Valkey(t)
	s := redistest.Start(t, redistest.Config("maxmemory-policy allkeys-lru"))
	info, err := s.Info(t.Context(), "server")
	if err != nil || info["server_name"] != "valkey" {
		t.Fatalf("the server is %q, %v", info["server_name"], err)
	}
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		r, err := a.Open(t, adapters.To(s.Addr()), redisstore.Options{}).Check(redistest.Within(t, redistest.Soon))
		if err != nil || r.Server != "valkey "+info["valkey_version"] {
			t.Errorf("the server is %q, %v", r.Server, err)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "allkeys-lru") {
			t.Errorf("warnings %q", r.Warnings)
		}
	})
}
