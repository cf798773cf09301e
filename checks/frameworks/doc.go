// Package frameworks limits the requests of gin, echo, chi and fiber by package httplimit. It holds the
// code that docs/frameworks.md shows, and tests it. It is a module of its own, so that no other module
// gets the requirements of the frameworks. Package calls, below, tests the rules of files on calls of gRPC.
package frameworks
