// Package linearizable checks that decisions of the memory store about one key are linearizable, and
// batches over all their keys. Its tests record histories of concurrent callers. Porcupine looks for an
// order of the calls that keeps real time, and in which the oracle gives the same results.
//
// The test moves the clock. In most histories it does not move. In the others it moves while no call
// runs, so that each call has one time.
package linearizable
