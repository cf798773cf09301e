// Package app is the running server. It puts a store, a policy and the edges
// together, opens the listeners, and closes them so that no request is lost.
package app
