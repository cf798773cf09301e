package bandwidth

import (
	"context"
	"io"
	"math"
)

// Writer writes no faster than its flows let it. It is for one goroutine at a time,
// but for Close.
type Writer struct {
	w     io.Writer
	meter *meter
}

var (
	_ io.WriteCloser = (*Writer)(nil)
	_ io.ReaderFrom  = (*Writer)(nil)
)

// NewWriter returns a writer to w that all flows bound. Bytes are waited for before
// they are written, so a large write is many writes of a chunk. When ctx ends, a write that waits
// for its turn returns the context's error; one that would wait beyond the context's
// deadline does so at once, with sluice.ErrDeadline. A write that w does not take
// lasts until w returns.
func NewWriter(ctx context.Context, w io.Writer, flows ...Flow) *Writer {
	return &Writer{w, newMeter(ctx, nil, flows)}
}

// Write writes p, a chunk at a time.
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

// take pays for n bytes that are written next, or for none.
func (w *Writer) take(n int64) error {
	err := w.meter.take(n)
	if err != nil {
		// Nothing was written. What cannot be given back is lost.
		w.meter.back(n)
		_ = w.meter.settle()
	}
	return err
}

// ReadFrom writes what it reads from src until that ends. It lets the ReadFrom of w
// move the bytes where there is one, a chunk at a time: files are still sent by the kernel.
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	to, ok := w.w.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	// A limit around src would hide that it is a file.
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

// Close gives back what was paid for and not written, a chunk at most. It does not
// close what is written to. Writes afterwards return io.ErrClosedPipe. It is safe to call while
// a write lasts, and more than once.
func (w *Writer) Close() error { return w.meter.close() }
