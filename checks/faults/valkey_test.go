package faults

import (
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

// All tests of this package run over redis-server, and over valkey-server if
// SLUICE_REDIS_SERVER says so. These run over Valkey in any case.

func TestValkeyBatchOverSlots(t *testing.T) { redistest.RunOverValkey(t, TestBatchOverSlots) }

func TestValkeyClusterFailover(t *testing.T)  { redistest.RunOverValkey(t, TestClusterFailover) }
func TestValkeySentinelFailover(t *testing.T) { redistest.RunOverValkey(t, TestSentinelFailover) }
