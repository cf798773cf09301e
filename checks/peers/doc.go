// Package peers puts other rate limiters of the Go world behind one small
// interface, each configured as its documentation recommends for one process
// and unbounded in keys, so that they can be measured beside ours. It is for
// the benchmarks only.
package peers
