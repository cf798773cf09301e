// Package spoe is the edge for HAProxy: an agent of its stream processing offload engine, which speaks SPOP 2.0. HAProxy
// describes each request in a message, and the answer sets variables, by which its configuration lets the request
// pass or refuses it.
//
// The decision is the same as for a request that another gateway reports. A delay is carried out before the answer. The
// edge sees neither the end of the request nor its response, so leases are given back at once, and costs that depend on
// a response stay as estimated. See docs/adr/0045.
package spoe
