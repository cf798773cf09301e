// Package grpclimit limits calls of gRPC, on servers and on clients. [PerClient] limits each client
// address of a server in one line:
//
//	limit, err := grpclimit.PerClient("100/m")
//	…
//	server := grpc.NewServer(limit...)
//
// [AtRate] lets the calls of a client wait, so that they keep a rate:
//
//	limit, err := grpclimit.AtRate("50/s")
//	…
//	conn, err := grpc.NewClient(target, append(limit, credentials)...)
//
// Everything else is a [Server] or a [Client] over a [Decider]. NewKeyDecider makes a decider from a
// store, limits, and the parts of a call that distinguish clients, such as the peer or a metadata key.
// NewPolicyDecider makes a decider from the rules of a policy. The paths of the rules are full methods,
// such as "/shop.v1.Orders/Create" and "/shop.v1.Orders/*". Their headers are metadata, and their host
// is the authority. If gRPC cannot express a setting of a rule, making the Server or Client returns an
// error.
//
// A denied call ends with a status that has the wait as RetryInfo, and the limits as QuotaFailure.
// The wait is in the trailer grpc-retry-pushback-ms too, so that the retry policy of a client
// repeats the call at the right time. [RetryDelay] returns the wait from an error.
//
// Interceptors run after grpc-go has read the message of a unary call. They are not called for methods
// that the server does not have. To bound work before the interceptors, use the server's own settings,
// such as grpc.MaxConcurrentStreams and grpc.MaxRecvMsgSize.
package grpclimit
