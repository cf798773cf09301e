package cli

import "testing"

// TestCollectorSettingsOfUsersWin keeps the ballast out of the way of users who set how much memory the program takes.
func TestCollectorSettingsOfUsersWin(t *testing.T) {
	for name, want := range map[string]bool{"": true, "GOGC": false, "GOMEMLIMIT": false} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if name != "" {
				t.Setenv(name, "off")
			}
			if got := newBallast() != nil; got != want {
				t.Errorf("with %q there is a ballast: %t", name, got)
			}
		})
	}
}
