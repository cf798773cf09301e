package servers

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

// All tests of this package run over Redis, or over what SLUICE_REDIS_SERVER names. This one
// runs over Valkey in any case.
func TestValkeyServesTheProxy(t *testing.T) {
	t.Parallel()
	redistest.Valkey(t)
	s := serve(t, "store: {redis: {addresses: ['"+redistest.Start(t).Addr()+"']}}\n"+every)
	exercise(t, s)
	if log := s.Log(); !strings.Contains(log, "valkey ") {
		t.Errorf("the log names no Valkey:\n%s", log)
	}
}
