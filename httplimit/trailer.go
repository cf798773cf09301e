package httplimit

import (
	"errors"
	"io"
	"net/http"
)

// trailingBody is the body of a copy of a request, which gets its trailers when the end is read. The
// server puts them into the request that came, and into the map there: a copy that shared it
// would have what is to be removed.
type trailingBody struct {
	io.ReadCloser
	from, to *http.Request
	own      reserved
	ended    bool
}

// trailing gives r, which is a copy of from, trailers of its own: those of from that are not reserved.
func trailing(r, from *http.Request, own reserved) {
	if !mayTrail(from) {
		return
	}
	if from.Trailer != nil {
		r.Trailer = make(http.Header, len(from.Trailer))
	}
	b := &trailingBody{ReadCloser: r.Body, from: from, to: r, own: own}
	b.fill()
	r.Body = b
}

// mayTrail reports whether something may follow the body of a request: what was announced, or,
// over HTTP/1, anything after one that is chunked.
func mayTrail(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && (r.Trailer != nil || r.ContentLength < 0 && r.ProtoMajor == 1)
}

// Read reads a piece of the body.
func (b *trailingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.ended {
		b.ended = true
		b.fill()
	}
	return n, err
}

// fill copies the trailers that are there: at first their names alone.
func (b *trailingBody) fill() {
	if b.to.Trailer == nil && len(b.from.Trailer) > 0 {
		b.to.Trailer = http.Header{}
	}
	for name, values := range b.from.Trailer {
		if !b.own.holds(name) {
			b.to.Trailer[name] = values
		}
	}
}
