package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/modelusage"
	"github.com/sluicehq/sluice/internal/share"
	"github.com/sluicehq/sluice/policy"
)

const (
	// bodyWait is how long a client may take to send the part of a body that rules read.
	bodyWait = time.Minute
	// mostHeld is how many bytes of bodies a Middleware holds at once. A client takes at most as much as is free, and
	// further bodies stay unread.
	mostHeld = 256 << 20
)

// modelBody is the body of a request to a language model. Rules read its beginning ahead, and the service gets it byte
// for byte.
type modelBody struct {
	io.ReadCloser
	control *http.ResponseController // nil if there is no deadline to set
	room    *bodyRoom                // nil if there is no bound
	peer    string
	held    int64  // of the room
	ahead   []byte // read and not passed on
	size    int64  // of what was read ahead, in all
	err     error  // of the last read
	reads   []modelRead
}

// modelRead is what a body says in one format.
type modelRead struct {
	of     string // ModelCost.Format
	most   int64
	format modelusage.Format
	model  policy.Model
	err    error
}

// keepBody makes the body of a request one that rules can read ahead. The writer, which may be nil, bounds the time of the
// reads, and the room, which may be nil, their memory. It returns nil for a request without a body.
func keepBody(w http.ResponseWriter, r *http.Request, room *bodyRoom) *modelBody {
	if b, ok := r.Body.(*modelBody); ok {
		return b // of a middleware around this one
	}
	if !hasBody(r) {
		return nil
	}
	b := &modelBody{ReadCloser: r.Body, room: room, peer: r.RemoteAddr}
	if w != nil {
		b.control = http.NewResponseController(w)
	}
	r.Body = b
	return b
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// Read reads the body from its beginning.
func (b *modelBody) Read(p []byte) (int, error) {
	if len(b.ahead) > 0 {
		n := copy(p, b.ahead)
		if b.ahead = b.ahead[n:]; len(b.ahead) == 0 {
			b.release()
			if b.Ended() {
				return n, io.EOF
			}
		}
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

// Ended reports whether the whole body came, so that the connection has no more of it.
func (b *modelBody) Ended() bool { return errors.Is(b.err, io.EOF) }

// release frees what is held.
func (b *modelBody) release() {
	if b == nil {
		return
	}
	if b.ahead = nil; b.held > 0 {
		b.room.take(b.peer, -b.held)
		b.held = 0
	}
}

// hold reports whether so many more bytes may be held.
func (b *modelBody) hold(n int64) bool {
	if b.room == nil {
		return true
	}
	if !b.room.take(b.peer, n) {
		return false
	}
	b.held += n
	return true
}

// bodyRoom is the memory of all bodies that rules have read ahead. The zero bodyRoom is empty.
type bodyRoom struct {
	mu   sync.Mutex
	room *share.Room
}

// take takes bytes for a remote address, or gives them back if they are negative. It reports whether there is room.
func (r *bodyRoom) take(remote string, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.room == nil {
		r.room = share.NewRoom(mostHeld)
	}
	peer := share.Peer(remote)
	if taken, _ := r.room.Taken(); n > 0 && (!r.room.IsFree(peer) || int64(taken)+n > mostHeld) {
		return false
	}
	r.room.Take(peer, int(n))
	return true
}

// readAhead reads until the body has ended, or more than most bytes of it are there. The length may be unknown.
func (b *modelBody) readAhead(most, length int64) {
	if b.err != nil || b.size > most {
		return
	}
	if b.control != nil && b.control.SetReadDeadline(time.Now().Add(bodyWait)) == nil {
		defer func() { _ = b.control.SetReadDeadline(time.Time{}) }()
	}
	if length < 0 || length > most {
		length = min(most, 4<<10)
	}
	if int64(cap(b.ahead)) < length+1 { // one more, so that the end is read without another buffer
		b.ahead = append(make([]byte, 0, length+1), b.ahead...)
	}
	for b.err == nil && b.size <= most {
		if len(b.ahead) == cap(b.ahead) {
			b.ahead = append(b.ahead, 0)[:len(b.ahead)]
		}
		var n int
		room := b.ahead[len(b.ahead):min(int64(cap(b.ahead)), most+1)]
		n, b.err = b.ReadCloser.Read(room)
		b.ahead, b.size = b.ahead[:len(b.ahead)+n], b.size+int64(n)
	}
}

var _ policy.ModelValues = values{}

// Model reads what the request says about a model. The body is read once for each format.
func (v values) Model(c *policy.ModelCost) (policy.Model, error) {
	if c == nil {
		c = &policy.ModelCost{}
	}
	most := cmp.Or(c.Body, 1<<20)
	b := keepBody(nil, v.r, nil)
	if b == nil {
		return v.bodiless()
	}
	for i := range b.reads {
		if k := &b.reads[i]; k.of == c.Format && k.most == most {
			return k.model, k.err
		}
	}
	k := modelRead{of: c.Format, most: most}
	k.read(v.r, b)
	b.reads = append(b.reads, k)
	return k.model, k.err
}

// bodiless returns the model of a request without a body. What passes over an upgraded connection is not read, and neither
// is the body of a request that a gateway reports.
func (v values) bodiless() (policy.Model, error) {
	m := policy.Model{Input: max(0, v.r.ContentLength), Output: -1}
	for _, line := range v.r.Header["Upgrade"] {
		m.Unread = m.Unread || strings.Contains(strings.ToLower(line), "websocket")
	}
	m.Unread = m.Unread || v.r.ContentLength != 0
	m.None = !m.Unread
	return m, nil
}

// read reads the request.
func (k *modelRead) read(r *http.Request, b *modelBody) {
	var at string
	if k.format, at, k.err = formatOf(k.of, r.URL); k.err != nil {
		return
	}
	inPath := modelName(modelusage.ModelOfPath(at))
	k.model = policy.Model{Name: inPath, Input: max(0, r.ContentLength), Output: -1, Unread: inPath == ""}
	for _, line := range r.Header["Content-Encoding"] {
		if line != "" && !strings.EqualFold(line, "identity") {
			k.err = badBody("is compressed, and its cost must be read", "send it without Content-Encoding")
			return
		}
	}
	if !isUTF8(r.Header["Content-Type"]) {
		k.err = badBody("is not said to be in UTF-8, so the service may read other text in it", "send JSON in UTF-8, with charset=utf-8 or without a charset")
		return
	}
	size := r.ContentLength
	if size < 0 {
		size = k.most
	}
	if size > k.most || b.err == nil && b.size <= k.most && !b.hold(size) {
		return
	}
	b.readAhead(k.most, r.ContentLength)
	k.model.Input = max(k.model.Input, b.size)
	switch {
	case b.size > k.most:
		k.err = badBody("is larger than the limits read, and its length is unknown", "send Content-Length")
		return
	case !b.Ended():
		k.err = badBody("did not arrive as a whole", "send all of it within a minute")
		return
	}
	k.readBody(at, b.ahead)
}

// isUTF8 reports whether the lines of Content-Type say that a body is in UTF-8, or do not name a character set. In
// UTF-7, letters can be a quote.
func isUTF8(lines []string) bool {
	for _, line := range lines {
		for _, rest := range strings.Split(strings.ToLower(line), "charset")[1:] {
			rest, named := strings.CutPrefix(strings.TrimLeft(rest, " \t"), "=")
			name, _, _ := strings.Cut(strings.Trim(rest, " \t"), ";")
			if name = strings.Trim(name, " \t\""); !named || name != "utf-8" && name != "utf8" && name != "us-ascii" {
				return false
			}
		}
	}
	return true
}

// readBody reads a whole body. In a format that is not known, its model is read as in most formats, and the answer is not.
func (k *modelRead) readBody(at string, body []byte) {
	format := k.format
	if format == modelusage.Unknown {
		format = modelusage.OpenAIChat
	}
	request, err := modelusage.ReadRequest(format, at, body)
	switch {
	case err == nil:
		k.model.Name, k.model.Output, k.model.Unread = modelName(request.Model), request.MaxOutput, request.Unsure
	case k.format != modelusage.Unknown || errors.Is(err, modelusage.ErrAmbiguous):
		problem, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), "modelusage: "), "; ")
		k.err = badBody("is refused: "+problem, remedy)
	}
}

// badBody refuses a request because of its body.
func badBody(problem, remedy string) error {
	return &policy.AttributeError{Attribute: "body", Problem: problem, Remedy: remedy}
}

// modelName returns the name of a model as rules compare it.
func modelName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// formatOf returns the format of a request, and its decoded path in lower case. Without a format of the rule, the path
// decides: as it is, and as services may resolve it. A path with two formats, or two models, is refused.
func formatOf(given string, u *url.URL) (f modelusage.Format, at string, err error) {
	of := modelusage.FormatOfPath
	if given != "" {
		if f, err = modelusage.ParseFormat(given); err != nil {
			return f, at, err
		}
		of = func(string) modelusage.Format { return f }
	}
	if u != nil {
		at = strings.ToLower(u.Path)
	}
	f = of(at)
	for _, plain := range resolved(at) {
		switch other := of(plain); {
		case other == modelusage.Unknown:
		case f == modelusage.Unknown:
			f, at = other, plain
		case other != f:
			return f, at, badPath(fmt.Sprintf("is of the format %v, and resolved it is of the format %v", f, other))
		case modelName(modelusage.ModelOfPath(plain)) != modelName(modelusage.ModelOfPath(at)):
			return f, at, badPath("names another model once it is resolved")
		}
	}
	return f, at, nil
}

// resolved returns a path as services may resolve it: with parameters of a segment at the end, or of each segment.
func resolved(at string) [2]string {
	for range 2 {
		if decoded, err := url.PathUnescape(at); err == nil {
			at = decoded
		}
	}
	at = "/" + strings.ReplaceAll(strings.ToLower(at), `\`, "/")
	atEnd, _, _ := strings.Cut(path.Clean(at), ";")
	segments := strings.Split(at, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return [2]string{atEnd, path.Clean(strings.Join(segments, "/"))}
}

// badPath refuses a request because of its path.
func badPath(problem string) error {
	return &policy.AttributeError{
		Attribute: "path", Problem: problem, Remedy: "send the path without dots, semicolons, and empty or encoded segments",
	}
}
