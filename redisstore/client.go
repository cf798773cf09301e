package redisstore

import (
	"context"
	"errors"
)

// Client runs scripts on a Redis or Valkey server, or on the node of a cluster that
// the keys belong to. It sends each call once and never again; to follow a redirection
// of a cluster is not to send again. It is safe for concurrent use.
//
// An error reply of the server is returned as a *ServerError. Any other error means
// that nobody knows whether the script has run, unless it wraps ErrNotSent.
type Client interface {
	// EvalSHA runs the script that has this SHA-1 digest, which the server knows
	// already or answers NOSCRIPT. The reply is one bulk string.
	EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error)
	// Eval runs the script of this source.
	Eval(ctx context.Context, source string, keys, args []string) (string, error)
	// Info returns the text of the INFO command.
	Info(ctx context.Context) (string, error)
	// Scan runs SCAN once, with MATCH and COUNT. From is empty to begin, and otherwise what
	// the call before returned as next, which is empty at the end. On a cluster it goes through
	// one master after the other: see ScanServer and ScanCluster. As it changes nothing, it may
	// be sent again.
	Scan(ctx context.Context, from, match string, count int) (keys []string, next string, err error)
}

// ServerError is an error reply of the server: the script has not run, or has
// changed nothing.
type ServerError struct {
	// Text is the reply as the server wrote it, such as "OOM command not allowed…".
	Text string
}

func (e *ServerError) Error() string { return "redisstore: the server answers: " + e.Text }

// ErrNotSent in the chain of an error says that the call has surely not reached a
// server, such as when a connection was refused.
var ErrNotSent = errors.New("redisstore: the call was not sent")
