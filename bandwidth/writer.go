package bandwidth

import (
	"context"
	"io"
	"math"
)

// Writer writes no faster than its flows let it. One goroutine at a time may use it, but any
// goroutine may call Close.
type Writer struct {
	w     io.Writer
	meter *meter
}

var (
	_ io.WriteCloser = (*Writer)(nil)
	_ io.ReaderFrom  = (*Writer)(nil)
)

// NewWriter returns a writer to w that all flows bound. It waits before it writes, so that a
// large write becomes many writes of a chunk.
//
// When ctx ends, a write that waits for its turn returns the context's error. A write that
// would wait beyond the context's deadline returns at once, with sluice.ErrDeadline. A write
// that waits for w lasts until w returns.
func NewWriter(ctx context.Context, w io.Writer, flows ...Flow) *Writer {
	return &Writer{w, newMeter(ctx, nil, flows)}
}

// Write writes p, a chunk at a time. For its errors see [NewWriter].
func (w *Writer) Write(p []byte) (int, error) {
	done := 0
	for {
		piece := p[done:]
		piece = piece[:w.meter.chunk(int64(len(piece)))]
		if err := w.take(int64(len(piece))); err != nil {
			return done, err
		}
		n, err := w.w.Write(piece)
		if n < len(piece) {
			w.meter.back(int64(len(piece) - n))
			if err == nil {
				err = io.ErrShortWrite
			}
		}
		done += n
		if err != nil || done == len(p) {
			return done, err
		}
	}
}

// take pays for n bytes that are written next, or for none if it fails.
func (w *Writer) take(n int64) error {
	err := w.meter.take(n)
	if err != nil {
		// Nothing was written. If settle fails, the bytes are lost.
		w.meter.back(n)
		_ = w.meter.settle()
	}
	return err
}

// ReadFrom writes what it reads from src, until the end of src. If the wrapped writer has a
// method ReadFrom, that method moves the bytes, a chunk at a time. So the kernel can still send
// files. For its errors see [NewWriter].
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	to, ok := w.w.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	// A limit around src would hide that src is a file.
	limited, ok := src.(*io.LimitedReader)
	if ok {
		src = limited.R
	} else {
		limited = &io.LimitedReader{N: math.MaxInt64}
	}
	done := int64(0)
	for limited.N > 0 {
		size := w.meter.chunk(limited.N)
		if err := w.take(size); err != nil {
			return done, err
		}
		n, err := to.ReadFrom(&io.LimitedReader{R: src, N: size})
		w.meter.back(size - n)
		done += n
		limited.N -= n
		if err != nil || n < size {
			return done, err
		}
	}
	return done, nil
}

// Close gives back the prepaid bytes that were not written, at most a chunk. It does not close
// the wrapped writer. Later writes return io.ErrClosedPipe. Close may be called during a write,
// and more than once.
func (w *Writer) Close() error { return w.meter.close() }
