// Package bandwidth paces bytes: the readers and writers of a key move at most so many bytes a
// second. All connections of the key count together, in one process or in many that share a
// store.
//
// A [Limiter] is a store and a rate. A [Flow] is the bytes of one key. [NewReader], [NewWriter]
// and [NewConn] wrap a reader, a writer or a connection, which then keeps to one flow or
// several:
//
//	limiter, err := bandwidth.NewLimiter(bandwidth.Options{
//		Store: store, Name: "downloads", Rate: sluice.PerSecond(1_000_000),
//	})
//	…
//	w := bandwidth.NewWriter(ctx, conn, limiter.Flow(sluice.StringKey(user)))
//	defer w.Close()
//	_, err = io.Copy(w, file)
//
// # What it bounds
//
// A token bucket decides when the bytes of a key may move, over all its connections. Over any
// interval W it admits at most rate·W plus [BurstTime] of the rate. A connection moves its
// bytes after that moment, and has at most [ChunkTime] of the rate prepaid. So one connection
// moves at most 50 ms of the rate, BurstTime and ChunkTime together, beyond rate·W, even if the
// scheduler delays it. Each further connection that is delayed at the same time adds ChunkTime.
// Rates of less than 100 bytes a second move single bytes. (TestRateExactly, TestBurstOfMany and
// TestLateConnectionsCatchUpWithinABound.)
//
// A flow with enough to move keeps its rate within 2 % over 5 s (TestRateReally). It makes up
// for sleeps that take too long. For this, each chunk must be paid and moved within ChunkTime,
// and delayed by at most BurstTime and ChunkTime together. Time beyond that is lost.
//
// # How
//
// Reads and writes block in the goroutine of the caller. There is no other goroutine, and no
// buffer. Each connection prepays a chunk of up to ChunkTime of the rate, whatever the sizes of
// its reads and writes. So it calls the store fifty times a second, whether it moves a megabyte
// or a terabyte an hour (TestCallsSeldom). The chunks of several connections of a key take
// turns in the order of their calls, so that each connection gets an equal share. A connection
// that has not moved bytes for 50 ms pays only for what it moves. Prepaid bytes go back to the
// flow with Close, and when an idle connection moves bytes again. See docs/adr/0013.
package bandwidth
