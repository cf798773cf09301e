package laws

import (
	"flag"
	"os"
	"testing"
)

// TestMain checks each law more often than rapid does by itself, unless its flag
// or its variable says how often.
func TestMain(m *testing.M) {
	if os.Getenv("RAPID_CHECKS") == "" {
		if err := flag.Set("rapid.checks", "500"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
