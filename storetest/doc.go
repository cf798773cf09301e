// Package storetest holds the contract that every [sluice.Store] keeps, as
// tests. Whoever writes a store runs it from a test of their own:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
//			return mystore.New(mystore.Options{Clock: clock.Now})
//		})
//	}
//
// Each promise is a subtest with a name, so that one of them can be run alone:
//
//	go test -run 'TestContract/Batches'
//
// Time is virtual: no test waits. A store whose time is that of a server needs a
// way, for tests, to be told another one.
package storetest
