package redistest

import (
	"strings"
	"testing"
)

func TestValkey(t *testing.T) { //nolint:tparallel // it sets the environment, which only its subtests see
	Valkey(t)
	t.Run("of a subtest", func(t *testing.T) {
		t.Parallel()
		info, err := Start(t).Info(short(t), "server")
		if err != nil || info["server_name"] != "valkey" {
			t.Errorf("the server is %q, %v", info["server_name"], err)
		}
	})
}

func TestValkeyIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := valkeyProgram(); err == nil || !strings.Contains(err.Error(), "make test") {
		t.Errorf("without a server: %v, want a word of make test", err)
	}
}
