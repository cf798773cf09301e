// Package bandwidth paces bytes: it lets a reader or a writer move at most so many a
// second, for each key, however many connections the key has, in one process or in
// many that share a store.
//
// A [Limiter] is a store and a rate. A [Flow] is what it allows one key, and
// [NewReader], [NewWriter] and [NewConn] hold what they wrap to one flow or several:
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
// The moments at which bytes are let through, of all connections of a key together,
// are those of a token bucket: over any interval W they are no more than [BurstTime] of the rate
// and rate·W. A connection moves its bytes after their moment, and never has more than
// [ChunkTime] of the rate outstanding. So one connection moves at most BurstTime and ChunkTime,
// together 50 ms of the rate, beyond rate·W, even where the scheduler holds it up, and each
// further connection that is held up at the same time ChunkTime more. Rates of less
// than 100 bytes a second move single bytes. (TestRateExactly, TestLateness and TestBurstOfMany.)
//
// A flow that has work keeps to its rate, within 2 % over 5 s (TestRateReally): what a
// sleep takes too long is made up for, as long as no chunk takes longer than ChunkTime to be paid and
// moved, and none is held up longer than BurstTime and ChunkTime. What lies beyond is lost.
//
// # How
//
// Reads and writes block, in the goroutine of the caller: there is no other, and nothing is
// buffered. Each connection pays ahead for a chunk of up to ChunkTime of the rate, whatever the
// sizes of its reads and writes, so that the store is asked fifty times a second, at a terabyte
// an hour as at a megabyte (TestAsksSeldom). The chunks of several connections of a key take
// turns in the order in which they were asked for: each gets an equal share. One that has not
// moved anything for 50 ms pays for just what it moves. What was paid for and not used goes
// back to the flow when the connection has been idle, and with Close.
package bandwidth
