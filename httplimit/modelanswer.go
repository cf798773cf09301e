package httplimit

import (
	"compress/gzip"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/internal/modelusage"
	"github.com/sluicehq/sluice/policy"
)

// AnswerEnd says how the charge for an answer of a language model was settled.
type AnswerEnd string

// The ends of answers.
const (
	// AnswerReported means that the answer reported its usage.
	AnswerReported AnswerEnd = "reported"
	// AnswerBroken means that the answer broke off. The charge is the estimate, or what was reported by then if it is more, or a
	// token for each event of a stream.
	AnswerBroken AnswerEnd = "broken"
	// AnswerSilent means that the answer reported no usage. The charge is the estimate, or a token for each event of a stream if
	// that is more.
	AnswerSilent AnswerEnd = "silent"
	// AnswerUnread means that the answer is compressed in a form that is not read. The charge is the estimate.
	AnswerUnread AnswerEnd = "unread"
	// AnswerFailed means that the answer is an error without usage, or that no service got the request: see
	// policy.Outcome.Unbilled. Nothing is charged.
	AnswerFailed AnswerEnd = "failed"
)

// modelAnswer reads the usage of the answer of a language model. A nil modelAnswer reads nothing.
type modelAnswer struct {
	read     modelRead
	cancels  bool // the client's leaving ends the request
	trims    bool // the client did not want the report of the usage
	canceled bool
	unread   bool
	scanner  *modelusage.Scanner
	unzip    *unzip
	trimmer  *modelusage.Trimmer
}

// newModelAnswer returns the reader of the answer to a request with a verdict; nil if no rule costs what a model used.
// The first rule decides about the format. The answer is awaited unless all rules cancel.
func newModelAnswer(b *modelBody, v *policy.Verdict) *modelAnswer {
	if b == nil {
		return nil
	}
	var a *modelAnswer
	for i := range v.Results {
		m := &v.Results[i]
		if !m.Charged() || !m.Settles() || m.Rule.Cost.Source != policy.CostModel {
			continue
		}
		c := m.Rule.Cost.Model
		for j := range b.reads {
			if k := &b.reads[j]; a == nil && k.of == c.Format && k.most == c.Body {
				a = &modelAnswer{read: *k, cancels: true}
			}
		}
		if a != nil {
			a.cancels, a.trims = a.cancels && c.Cancel, a.trims || c.IncludeUsage
		}
	}
	return a
}

// request returns the request that the service gets, so that its answer can be read.
func (a *modelAnswer) request(r *http.Request, b *modelBody) *http.Request {
	added := false
	if a.trims {
		var body []byte
		if body, added = modelusage.AddIncludeUsage(a.read.format, b.ahead); added {
			b.ahead, b.size = body, int64(len(body))
		}
	}
	a.trims = added
	accepted, narrow := narrowed(r.Header["Accept-Encoding"], added)
	if !added && !narrow {
		return r
	}
	r = r.WithContext(r.Context())
	r.Header = maps.Clone(r.Header)
	if narrow {
		r.Header["Accept-Encoding"] = []string{accepted}
	}
	if added && r.ContentLength >= 0 {
		r.ContentLength = b.size
		r.Header["Content-Length"] = []string{strconv.FormatInt(b.size, 10)}
	}
	return r
}

// narrowed returns the encodings that the service may use: gzip if the client accepts it, and otherwise none. It reports
// whether they differ from the client's.
func narrowed(lines []string, plain bool) (string, bool) {
	given := strings.ToLower(strings.Join(lines, ","))
	accepted := "identity"
	for item := range strings.SplitSeq(given, ",") {
		name, weight, _ := strings.Cut(item, ";")
		if q := strings.TrimRight(strings.TrimSpace(weight), "0."); strings.TrimSpace(name) == "gzip" && q != "q=" && !plain {
			accepted = "gzip"
		}
	}
	return accepted, (len(lines) > 0 || plain) && given != accepted
}

// begin prepares for an answer with a header.
func (a *modelAnswer) begin(h http.Header, to io.Writer) {
	if a == nil || a.scanner != nil || a.unread || a.read.format == modelusage.Unknown {
		return
	}
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	stream := kind == "text/event-stream"
	a.scanner = modelusage.NewScanner(a.read.format, stream)
	switch strings.ToLower(h.Get("Content-Encoding")) {
	case "", "identity":
		if a.trims && stream {
			a.trimmer = modelusage.NewTrimmer(to)
			h.Del("Content-Length")
		}
	case "gzip", "x-gzip":
		a.unzip = newUnzip(a.scanner)
	default:
		a.scanner, a.unread = nil, true
	}
}

// scan reads a piece of the answer.
func (a *modelAnswer) scan(p []byte) {
	switch {
	case a == nil || a.scanner == nil:
	case a.unzip != nil:
		a.unzip.write(p)
	default:
		_, _ = a.scanner.Write(p) // it never fails
	}
}

// close passes on what is held back of an answer that has ended.
func (a *modelAnswer) close() {
	if a != nil && a.trimmer != nil {
		_ = a.trimmer.Close() // a client that is gone needs no rest
	}
}

// settle adds the usage to an outcome, and returns how the answer ended.
func (a *modelAnswer) settle(o *policy.Outcome) AnswerEnd {
	if a.unzip != nil {
		a.unzip.close()
	}
	var u modelusage.Usage
	found, complete := false, false
	if a.scanner != nil {
		u, found = a.scanner.Usage()
		complete = a.scanner.Complete()
	}
	if a.scanner != nil && (!found || !complete) {
		u.Output = max(u.Output, a.scanner.Events())
	}
	if found || u.Output > 0 && !o.Unbilled() {
		o.Usage = &policy.Usage{
			Model: a.read.model.Name, Unread: a.read.model.Unread, AtLeast: !found,
			Input: u.Input, CachedInput: u.CachedInput, CacheWrite: u.CacheWrite, Output: u.Output,
		}
	}
	switch {
	case found && complete:
		o.Partial, o.Unknown = false, false
		return AnswerReported
	case found && a.canceled && a.read.format == modelusage.GeminiGenerate:
		o.Partial, o.Unknown = false, false // each of its events reports all usage so far
		return AnswerBroken
	case !found && o.Unbilled():
		return AnswerFailed
	case found || o.Unknown || o.Partial:
		o.Partial = true
		return AnswerBroken
	case a.unread:
		return AnswerUnread
	}
	return AnswerSilent
}

// unzip reads compressed pieces, in a goroutine of its own that ends with close.
type unzip struct {
	pieces *io.PipeWriter
	done   chan struct{}
}

func newUnzip(to io.Writer) *unzip {
	from, pieces := io.Pipe()
	u := &unzip{pieces: pieces, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		z, err := gzip.NewReader(from)
		if err == nil {
			_, err = io.CopyBuffer(to, z, make([]byte, 2<<10)) //nolint:gosec // a scanner keeps nothing; a thousand streams have a thousand buffers
		}
		_ = from.CloseWithError(err) // later pieces are not read
		_, _ = io.Copy(io.Discard, from)
	}()
	return u
}

func (u *unzip) write(p []byte) { _, _ = u.pieces.Write(p) }

func (u *unzip) close() {
	_ = u.pieces.Close()
	<-u.done
}
