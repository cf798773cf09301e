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
	// Masters tells which servers hold keys: the masters of a cluster that have slots, or the
	// one server.
	Masters(ctx context.Context) ([]Master, error)
	// Info returns the text of the INFO command, of the node that a key belongs to. As it
	// changes nothing, it may be sent again.
	Info(ctx context.Context, key string) (string, error)
	// Scan runs SCAN once, with MATCH and COUNT, on the node that a key belongs to. As it
	// changes nothing, it may be sent again.
	Scan(ctx context.Context, key string, cursor uint64, match string, count int) (keys []string, next uint64, err error)
}

// Master is a server that holds keys.
type Master struct {
	// Address is what an operator knows a node of a cluster by, such as "10.0.0.1:6379".
	// It is empty for one server, which the client's settings name.
	Address string
	// Slot is the first slot of a cluster that it has.
	Slot int
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
