//go:build race

package httplimit_test

// raceCosts is how many times as long the race detector may make a test.
const raceCosts = 20
