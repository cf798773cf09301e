// Package linearizable holds the memory store to the promise that decisions about
// one key are linearizable, and batches over all their keys: its tests record
// histories of concurrent callers, and Porcupine looks for an order of their calls, in
// keeping with real time, in which models of a few lines give the same answers.
//
// Time is that of the test. It stands still in most histories; in the others it
// moves when no call is under way, so that each call has one time.
package linearizable
