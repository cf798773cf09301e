package bandwidth

import (
	"context"
	"io"
)

// Reader reads no faster than its flows let it. It is for one goroutine at a time,
// but for Close.
//
// It is not an io.WriterTo: what reads from it, io.Copy included, reads piece by piece.
type Reader struct {
	r     io.Reader
	meter *meter
}

var _ io.ReadCloser = (*Reader)(nil)

// NewReader returns a reader of r that all flows bound. Bytes that r gives are paid for and
// waited for before they are handed on, so r is read a chunk ahead. When ctx ends, a read that
// waits for its turn returns the bytes it has and the context's error; one that would wait
// beyond the context's deadline does so at once, with sluice.ErrDeadline. A read that waits for
// r lasts until r returns.
func NewReader(ctx context.Context, r io.Reader, flows ...Flow) *Reader {
	return &Reader{r, newMeter(ctx, nil, flows)}
}

// Read reads up to len(p) bytes, and no more than a chunk.
func (r *Reader) Read(p []byte) (int, error) {
	// What an earlier read that was cut short has left to be paid.
	if err := r.meter.take(0); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return r.r.Read(p)
	}
	n, err := r.r.Read(p[:r.meter.chunk(int64(len(p)))])
	if n <= 0 {
		return n, err
	}
	if late := r.meter.take(int64(n)); late != nil {
		return n, late
	}
	return n, err
}

// Close gives back what was paid for and not read, a chunk at most. It does not
// close what is read from. Reads afterwards return io.ErrClosedPipe. It is safe to call while a read
// lasts, and more than once.
func (r *Reader) Close() error { return r.meter.close() }
