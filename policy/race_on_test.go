//go:build race

package policy_test

// raceEnabled is set because the race detector makes pools drop their contents.
const raceEnabled = true
