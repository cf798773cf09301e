package bandwidth

import (
	"context"
	"io"
)

// Reader reads no faster than its flows let it. One goroutine at a time may use it, but any
// goroutine may call Close.
//
// It is not an io.WriterTo, so that io.Copy reads piece by piece.
type Reader struct {
	r     io.Reader
	meter *meter
}

var _ io.ReadCloser = (*Reader)(nil)

// NewReader returns a reader of r that all flows bound. It reads a chunk from r, pays for it,
// and returns it when it may move.
//
// When ctx ends, a read that waits for its turn returns the bytes it has, and the context's
// error. A read that would wait beyond the context's deadline returns its bytes at once, with
// sluice.ErrDeadline. A read that waits for r lasts until r returns.
func NewReader(ctx context.Context, r io.Reader, flows ...Flow) *Reader {
	return &Reader{r, newMeter(ctx, nil, flows)}
}

// Read reads up to len(p) bytes, and no more than a chunk. For its errors see [NewReader].
func (r *Reader) Read(p []byte) (int, error) {
	// An earlier read that was cut short may owe bytes.
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

// Close gives back the prepaid bytes that were not read, at most a chunk. It does not close the
// wrapped reader. Later reads return io.ErrClosedPipe. Close may be called during a read, and
// more than once.
func (r *Reader) Close() error { return r.meter.close() }
