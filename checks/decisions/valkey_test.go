package decisions

import (
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

// All tests of this package run over redis-server, and over valkey-server if
// SLUICE_REDIS_SERVER says so. These run over Valkey in any case: a part for each kind of
// state and each way to a server.

func TestValkeyKeepsTheContract(t *testing.T) { redistest.RunOverValkey(t, TestRedisKeepsTheContract) }

func TestValkeyBucketsEqualMemory(t *testing.T) { redistest.RunOverValkey(t, TestBucketsEqualMemory) }

func TestValkeyWindowsDecideAsInMemory(t *testing.T) {
	redistest.RunOverValkey(t, TestWindowsDecideAsInMemory)
}
func TestValkeyBatchesOfWindows(t *testing.T) { redistest.RunOverValkey(t, TestBatchesOfWindows) }
func TestValkeyLogsAsInMemory(t *testing.T)   { redistest.RunOverValkey(t, TestLogsAsInMemory) }
func TestValkeyLeasesAsInMemory(t *testing.T) { redistest.RunOverValkey(t, TestLeasesAsInMemory) }
func TestValkeyBansEqualMemory(t *testing.T)  { redistest.RunOverValkey(t, TestBansEqualMemory) }
func TestValkeyBansByHandEqualMemory(t *testing.T) {
	redistest.RunOverValkey(t, TestBansByHandEqualMemory)
}
func TestValkeyGrantsEqualOracle(t *testing.T) { redistest.RunOverValkey(t, TestGrantsEqualOracle) }

func TestValkeyGrantsHoldTheBound(t *testing.T) { redistest.RunOverValkey(t, TestGrantsHoldTheBound) }

func TestValkeyScriptsMultiplyExactly(t *testing.T) {
	redistest.RunOverValkey(t, TestScriptsMultiplyExactly)
}

func TestValkeyBucketsExpire(t *testing.T) { redistest.RunOverValkey(t, TestBucketsExpire) }
func TestValkeyWindowsExpireWhenFresh(t *testing.T) {
	redistest.RunOverValkey(t, TestWindowsExpireWhenFresh)
}

func TestValkeySetsLiveUntilFresh(t *testing.T) { redistest.RunOverValkey(t, TestSetsLiveUntilFresh) }

func TestValkeyBansAreListed(t *testing.T) { redistest.RunOverValkey(t, TestBansAreListed) }
func TestValkeyBansAreListedOnACluster(t *testing.T) {
	redistest.RunOverValkey(t, TestBansAreListedOnACluster)
}

func TestValkeyLeastPrivilege(t *testing.T) { redistest.RunOverValkey(t, TestLeastPrivilege) }
func TestValkeyLeastPrivilegeIsLeast(t *testing.T) {
	redistest.RunOverValkey(t, TestLeastPrivilegeIsLeast)
}

func TestValkeyLeastPrivilegeOnACluster(t *testing.T) {
	redistest.RunOverValkey(t, TestLeastPrivilegeOnACluster)
}

func TestValkeyLeastPrivilegeWithSentinels(t *testing.T) {
	redistest.RunOverValkey(t, TestLeastPrivilegeWithSentinels)
}

func TestValkeyFullServersRefuseOrForget(t *testing.T) {
	redistest.RunOverValkey(t, TestFullServersRefuseOrForget)
}
