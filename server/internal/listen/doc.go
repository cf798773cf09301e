// Package listen is the wing of what is the same for all protocols at a listener: how connections are accepted, bounded and
// drained, and what serves HTTP, gRPC and streams of commands over them.
//
// Its rooms know no rules. App and the edges import them, and config their settings.
package listen
