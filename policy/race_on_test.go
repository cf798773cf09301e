//go:build race

package policy_test

// raceEnabled: the race detector makes pools drop what they hold.
const raceEnabled = true
