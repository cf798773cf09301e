package redis

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// All tests of this package run over redis-server, and over valkey-server if
// SLUICE_REDIS_SERVER says so. These run over Valkey in any case: a part for each kind of
// state and each way to a server, in a third of the time.

// overValkey runs a test over Valkey.
func overValkey(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	redistest.Valkey(t)
	t.Run("valkey", test) // which may run its parts in parallel
}

func TestValkeyContract(t *testing.T) { overValkey(t, TestContract) }

func TestValkeyBucketsEqualMemory(t *testing.T)      { overValkey(t, TestBucketsEqualMemory) }
func TestValkeyWindowsDecideAsInMemory(t *testing.T) { overValkey(t, TestWindowsDecideAsInMemory) }
func TestValkeyLogsAsInMemory(t *testing.T)          { overValkey(t, TestLogsAsInMemory) }
func TestValkeyLeasesAsInMemory(t *testing.T)        { overValkey(t, TestLeasesAsInMemory) }
func TestValkeyBansEqualMemory(t *testing.T)         { overValkey(t, TestBansEqualMemory) }
func TestValkeyMuldiv(t *testing.T)                  { overValkey(t, TestMuldiv) }

func TestValkeyBucketsExpire(t *testing.T)          { overValkey(t, TestBucketsExpire) }
func TestValkeyWindowsExpireWhenFresh(t *testing.T) { overValkey(t, TestWindowsExpireWhenFresh) }
func TestValkeySetsLiveUntilFresh(t *testing.T)     { overValkey(t, TestSetsLiveUntilFresh) }

func TestValkeyBansAreListed(t *testing.T)           { overValkey(t, TestBansAreListed) }
func TestValkeyBansAreListedOnACluster(t *testing.T) { overValkey(t, TestBansAreListedOnACluster) }
func TestValkeyBansByHandEqualMemory(t *testing.T)   { overValkey(t, TestBansByHandEqualMemory) }

func TestValkeyLeastPrivilege(t *testing.T)        { overValkey(t, TestLeastPrivilege) }
func TestValkeyLeastPrivilegeIsLeast(t *testing.T) { overValkey(t, TestLeastPrivilegeIsLeast) }

func TestValkeyLeastPrivilegeOnACluster(t *testing.T) { overValkey(t, TestLeastPrivilegeOnACluster) }

func TestValkeyLeastPrivilegeWithSentinels(t *testing.T) {
	overValkey(t, TestLeastPrivilegeWithSentinels)
}

func TestValkeyAdapterReplies(t *testing.T)   { overValkey(t, TestAdapterReplies) }
func TestValkeyAdapterCluster(t *testing.T)   { overValkey(t, TestAdapterCluster) }
func TestValkeyBatchOverSlots(t *testing.T)   { overValkey(t, TestBatchOverSlots) }
func TestValkeyEviction(t *testing.T)         { overValkey(t, TestEviction) }
func TestValkeyClusterFailover(t *testing.T)  { overValkey(t, TestClusterFailover) }
func TestValkeySentinelFailover(t *testing.T) { overValkey(t, TestSentinelFailover) }

// TestValkeyCheck: the check at the start tells Valkey from Redis.
func TestValkeyCheck(t *testing.T) {
	redistest.Valkey(t)
	s := redistest.Start(t, redistest.Config("maxmemory-policy allkeys-lru"))
	info, err := s.Info(t.Context(), "server")
	if err != nil || info["server_name"] != "valkey" {
		t.Fatalf("the server is %q, %v", info["server_name"], err)
	}
	eachAdapter(t, func(t *testing.T, a adapter) {
		r, err := a.open(t, toServer(s), redisstore.Options{}).Check(within(t, soon))
		if err != nil || r.Server != "valkey "+info["valkey_version"] {
			t.Errorf("the server is %q, %v", r.Server, err)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "allkeys-lru") {
			t.Errorf("warnings %q", r.Warnings)
		}
	})
}
