package redistest

import (
	"strings"
	"testing"
)

// TestRunOverValkeyChangesTheServer: the servers of a test and of its subtests run valkey-server, and
// the servers of a parallel test do not.
func TestRunOverValkeyChangesTheServer(t *testing.T) {
	t.Parallel()
	name := func(t *testing.T, s *Server) string {
		t.Helper()
		info, err := s.Info(short(t), "server")
		if err != nil {
			t.Fatal(err)
		}
		return info["server_name"]
	}
	t.Run("with", func(t *testing.T) {
		t.Parallel()
		Valkey(t)
		t.Run("a subtest", func(t *testing.T) {
			t.Parallel()
			if got := name(t, Start(t)); got != "valkey" {
				t.Errorf("the server is %q", got)
			}
		})
		t.Run("sentinels", func(t *testing.T) {
			t.Parallel()
			s := StartSentinels(t)
			for _, one := range s.all() {
				if got := name(t, one); got != "valkey" {
					t.Errorf("the server is %q", got)
				}
			}
		})
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		if OverValkey(t) {
			t.Error("the test runs over Valkey")
		}
	})
}

func TestValkeyIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := valkeyProgram(); err == nil || !strings.Contains(err.Error(), "make test") {
		t.Errorf("without a server: %v, want a word of make test", err)
	}
}
