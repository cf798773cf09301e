package redisstore

import (
	"context"
	"errors"
)

// Client runs scripts on a Redis or Valkey server, or on the node of a cluster that the keys
// belong to. It is safe for concurrent use.
//
// It sends each script at most once. Following a redirection of a cluster does not count as
// sending again. It returns an error reply of the server as a *ServerError. After any other
// error the script may have run, unless the error wraps ErrNotSent.
//
// A client that is an io.Closer belongs to its store: Close of the store closes it.
type Client interface {
	// EvalSHA runs the script with this SHA-1 digest. A server that does not have the
	// script replies NOSCRIPT. Otherwise the reply is one bulk string.
	EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error)
	// Eval runs the script with this source.
	Eval(ctx context.Context, source string, keys, args []string) (string, error)
	// Masters returns the servers that hold keys: the masters of a cluster that have slots,
	// or the only server.
	Masters(ctx context.Context) ([]Master, error)
	// Info runs INFO on the node that a key belongs to, and returns its text. The client may
	// send it again, because it changes nothing.
	Info(ctx context.Context, key string) (string, error)
	// Scan runs SCAN with MATCH and COUNT on the node that a key belongs to. The client may
	// send it again, because it changes nothing.
	Scan(ctx context.Context, key string, cursor uint64, match string, count int) (keys []string, next uint64, err error)
}

// Master is a server that holds keys.
type Master struct {
	// Address is the address of a node of a cluster, such as "10.0.0.1:6379". It is empty
	// for a single server.
	Address string
	// Slot is the master's first slot in a cluster.
	Slot int
	// Ranges are all its slots in a cluster.
	Ranges []SlotRange
}

// SlotRange is the slots of a cluster from First to Last.
type SlotRange struct {
	// First and Last are the first and the last slot, both included.
	First, Last int
}

// ServerError is an error reply of the server. The script has changed nothing.
type ServerError struct {
	// Text is the reply as the server wrote it, such as "OOM command not allowed…".
	Text string
}

func (e *ServerError) Error() string { return "redisstore: the server answers: " + e.Text }

// ErrNotSent is in the chain of an error if the call has certainly not reached a server,
// for example because the connection was refused.
var ErrNotSent = errors.New("redisstore: the call was not sent")
