package httplimit

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

// reserved are the names of headers, in canonical form, that only a Middleware sets on requests.
type reserved []string

// holds reports whether a name is reserved, even in a spelling that some services treat as equal.
func (s reserved) holds(name string) bool {
	return slices.ContainsFunc(s, func(own string) bool { return spelling.AlikeNames(own, name) })
}

// isAlias reports whether some services read a header as one that the rules read, which has another name.
func isAlias(name string, read []string) bool {
	return reserved(read).holds(name) && !slices.Contains(read, name)
}

// passed returns the request as it is passed on. It lacks the headers and trailers that only this
// package may set, and has the headers that the rules set. If there is nothing to remove or set, it is
// r itself. The server puts trailers into the request that came.
func passed(came, r *http.Request, v *policy.Verdict, own reserved) *http.Request {
	p := v.Policy()
	remove := removed(r, own, p)
	trails := len(own)+len(p.ReadHeaders()) > 0 && mayTrail(r)
	if len(remove) == 0 && v.Mark == nil && v.Degrade == nil && !trails {
		return r
	}
	r = r.WithContext(r.Context())
	if trails {
		trailing(r, came, own, p)
	}
	r.Header = maps.Clone(r.Header)
	for _, name := range remove {
		delete(r.Header, name)
	}
	for _, rule := range [...]*policy.Rule{v.Mark, v.Degrade} {
		if rule != nil {
			setRequestHeader(r.Header, v, rule)
		}
	}
	keep(r, own)
	return r
}

// removed returns the headers of a request that only this package may set, and headers in another spelling
// than the rules read.
func removed(r *http.Request, own reserved, p *policy.Policy) (names []string) {
	for name := range r.Header {
		if own.holds(name) || isAlias(name, p.ReadHeaders()) {
			names = append(names, name)
		}
	}
	return names
}

// setRequestHeader sets the headers with which a rule marks or degrades requests.
func setRequestHeader(h http.Header, v *policy.Verdict, rule *policy.Rule) {
	for name, value := range rule.WhenLimited.RequestHeader {
		h.Set(name, expand(value, seconds(advisoryWait(v, rule)), rule.Name))
	}
}

// keep makes sure that no proxy behind removes the headers that were set: proxies remove headers
// that a client has named in Connection.
func keep(r *http.Request, own reserved) {
	lines := r.Header["Connection"]
	if len(lines) == 0 {
		return
	}
	var kept []string
	for _, line := range lines {
		for option := range strings.SplitSeq(line, ",") {
			if option = strings.TrimSpace(option); option != "" && !own.holds(option) {
				kept = append(kept, option)
			}
		}
	}
	delete(r.Header, "Connection")
	if len(kept) > 0 {
		r.Header["Connection"] = []string{strings.Join(kept, ", ")}
	}
}

// trailingBody is the body of a copy of a request. The copy gets its trailers when the end of the body
// is read. The server puts trailers into the map of the original request. A copy that shared the map
// would also have the trailers that must be removed.
type trailingBody struct {
	io.ReadCloser
	from, to *http.Request
	own      reserved
	rules    *policy.Policy
	ended    bool
}

// trailing gives r, which is a copy of from, trailers of its own: from's, except reserved ones.
func trailing(r, from *http.Request, own reserved, p *policy.Policy) {
	if !mayTrail(from) {
		return
	}
	if from.Trailer != nil {
		r.Trailer = make(http.Header, len(from.Trailer))
	}
	b := &trailingBody{ReadCloser: r.Body, from: from, to: r, own: own, rules: p}
	b.fill()
	r.Body = b
}

// mayTrail reports whether trailers may follow the body of a request: announced trailers or, over
// HTTP/1, any trailers after a chunked body.
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

// fill copies the trailers that are there: at first only their names.
func (b *trailingBody) fill() {
	if b.to.Trailer == nil && len(b.from.Trailer) > 0 {
		b.to.Trailer = http.Header{}
	}
	for name, values := range b.from.Trailer {
		if !b.own.holds(name) && !reserved(b.rules.ReadHeaders()).holds(name) {
			b.to.Trailer[name] = values
		}
	}
}
