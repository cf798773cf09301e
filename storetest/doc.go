// Package storetest is the contract of every [sluice.Store], as tests. Authors of stores run it
// in a test of their own:
//
//	func TestKeepsTheContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
//			return mystore.New(mystore.Options{Clock: clock.Now})
//		})
//	}
//
// Each promise is a subtest with a name, so that it can be run by itself:
//
//	go test -run 'TestKeepsTheContract/Batches'
//
// Time is virtual: no test waits. A store that uses the time of a server needs a way to replace
// that time in tests.
package storetest
