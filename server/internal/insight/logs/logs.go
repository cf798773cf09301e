// Package logs reads access logs into records, in the order in which the requests began. It reads the formats of many
// servers, compressed files, and several files at once. A line that it cannot read is counted and skipped.
package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice/server/internal/insight/page"
)

// Record is one request, as a line of a log has it. The reader uses the memory of its texts again: clone what you keep.
type Record struct {
	At       int64    // when the request began, in microseconds of Unix time
	Duration int64    // how long it took, in microseconds; -1 if the log does not say
	Client   string   // the address of the client, without a port; empty if the log has none
	Method   string   // as it came
	Target   string   // path and query, as they came
	Host     string   // without a default port; empty if the log has none
	Status   int      // 0 if the log does not say
	Sent     int64    // bytes of the answer's body; -1 if the log does not say
	Received int64    // bytes of the request's body; -1 if the log does not say
	Values   []string // parallel to Layout.Names; Missing for what the request did not have
	Verdict  Verdict  // what Sluice or limit_req of nginx decided; zero in the logs of other servers
	File     int32    // index of the file in Options.Files
	Line     int32    // number of the line in the file, from 1
}

// Records are requests that follow each other. They are valid until they are read again; the zero value has none.
type Records struct {
	All  []Record
	lent []*chunk // has their texts
}

// Missing is the value of a header, or of another name, that a request did not have. No value contains it.
const Missing = "\x00"

// Separator is between the values of a header that a request had several times, in logs that have them apart.
const Separator = "\x00\x00"

// Verdict is the decision in a line of Sluice's own access log.
type Verdict struct {
	Action string // allow, mark, degrade, delay or deny; in Sluice's own log, a request that waits has allow
	Dry    bool   // the decision was not carried out
	Aside  bool   // a fallback decided, or units ahead paid: no limit of the policy
	Rule   string // the rule that decided
	Took   int64  // how long before Record.At the decision began, in microseconds; 0 if the log does not say
}

// Fields is a set of what the records of a format have.
type Fields uint16

// These are the members of Fields.
const (
	HasClient Fields = 1 << iota
	HasMethod
	HasTarget
	HasQuery // the target has the query
	HasHost
	HasStatus
	HasDuration
	HasSent
	HasReceived
	HasVerdict
)

// Name is a part of a request that some formats have in fields of its own.
type Name struct {
	Source string // header, cookie, query, claim or attribute
	Name   string // a header's name in its canonical spelling
}

// Layout says what the records of a log have.
type Layout struct {
	Format string // as in Options.Format; for "auto" the format that was found
	Has    Fields
	Names  []Name        // what Record.Values has
	Blur   time.Duration // a request began in [At, At+Blur): 1 s if the log has whole seconds
	Ends   bool          // At may be when a request ended, because the log has no durations
}

// Index returns the index of a name in Record.Values, and -1 if the log does not have it.
func (l *Layout) Index(source, name string) int {
	return slices.Index(l.Names, Name{source, name})
}

// Setting says that a field of the log has a named part of the requests, such as header:X-Api-Key=field:api_key.
type Setting struct {
	Name  Name
	Field string
}

// Options says what to read.
type Options struct {
	Files   []string  // "-" is Stdin
	Stdin   io.Reader // nil if no file is "-"
	Format  string    // "auto" or empty: see [Open]
	Set     []Setting
	Wanted  []Name        // what the policy reads: the records have these names and the names in Set, if the log has them
	Since   time.Time     // skips earlier requests; zero for none
	Until   time.Time     // skips this time and later; zero for none
	Reorder time.Duration // how much later than the line of a younger request a line may come; 2 minutes if zero
	Strict  bool          // a bad line is an error
}

// Stats counts what was read.
type Stats struct {
	Lines     int64     `json:"lines"`     // all but empty lines and comments
	Bad       int64     `json:"bad"`       // lines that are not of the format
	Unread    int64     `json:"unread"`    // answers to connections that sent no request that the server could read
	Late      int64     `json:"late"`      // lines that came later than Reorder allows; their time was moved to the earliest possible one
	Skipped   int64     `json:"skipped"`   // requests before Since, or not before Until
	Read      int64     `json:"-"`         // bytes of the files, as they are on the disk
	Total     int64     `json:"-"`         // bytes of all files, without Stdin
	FirstBads []BadLine `json:"bad_lines"` // the first five
}

// BadLine is a line that is not of the format.
type BadLine struct {
	File string
	Line int32
	Why  string
	Text string // printable, at most 120 bytes of the line
}

// Reader reads records. It is not safe for concurrent use.
type Reader struct {
	options  Options
	layout   Layout
	format   *format
	files    []*source // files that are not read to their ends
	current  *source   // the file with the earliest newest request
	others   int64     // the earliest of the newest requests of the other files
	order    order
	since    int64
	until    int64
	read     int64 // bytes of files that are closed
	stats    Stats
	err      error
	chunks   chunks
	scratch  Record
	finished bool
}

// Open opens the files and reads their first lines. The format "auto" finds the format from them. The other formats are
// combined, caddy, traefik, envoy, haproxy, alb, cloudfront and sluice, and with a parameter nginx:FORMAT,
// apache:FORMAT, envoy:FORMAT and json:FIELDS. Close the reader.
func Open(o Options) (*Reader, error) {
	if len(o.Files) == 0 {
		return nil, errors.New("logs: no file; name a log, or - for the standard input")
	}
	if o.Reorder == 0 {
		o.Reorder = 2 * time.Minute
	}
	r := &Reader{options: o, since: math.MinInt64, until: math.MaxInt64, stats: Stats{FirstBads: []BadLine{}}}
	r.order = order{span: int64(o.Reorder / time.Second), left: math.MinInt64, until: math.MinInt64}
	if !o.Since.IsZero() {
		r.since = o.Since.UnixMicro()
	}
	if !o.Until.IsZero() {
		r.until = o.Until.UnixMicro()
	}
	if err := r.open(); err != nil {
		_ = r.Close() // the error of opening is the one to report
		return nil, err
	}
	return r, nil
}

func (r *Reader) open() error {
	stdin := false
	for i, name := range r.options.Files {
		s := &source{name: name, index: int32(i), chunks: &r.chunks}
		r.files = append(r.files, s)
		if name == "-" {
			if stdin || r.options.Stdin == nil {
				return errors.New("logs: the standard input can be read once; name - once")
			}
			stdin = true
			s.stdin = r.options.Stdin
		}
		if err := s.open(); err != nil {
			return err
		}
		r.stats.Total += s.size
		if err := s.look(); err != nil {
			return err
		}
	}
	if err := r.choose(); err != nil {
		return err
	}
	for _, s := range r.files {
		s.parser = r.format.parser.clone()
		_, _, s.newest = r.try(r.format, s.sample)
		s.sample = nil
	}
	return r.turn()
}

// Layout returns what the records have. It does not change.
func (r *Reader) Layout() *Layout { return &r.layout }

// Err returns the error after which Next returned false.
func (r *Reader) Err() error { return r.err }

// Stats returns what was read up to now.
func (r *Reader) Stats() Stats {
	s := r.stats
	s.Read = r.read
	for _, f := range r.files {
		s.Read += f.read
	}
	return s
}

// Close closes the files.
func (r *Reader) Close() error {
	var err error
	for _, s := range r.files {
		err = errors.Join(err, s.close())
	}
	r.files, r.finished = nil, true
	return err
}

// Next reads the next requests, at most so many. No request begins before the one before it. It returns false if there is none: at
// the end, and after an error, which Err returns.
func (r *Reader) Next(rs *Records, most int) bool {
	for _, c := range rs.lent {
		r.chunks.release(c)
	}
	rs.lent, rs.All = rs.lent[:0], slices.Grow(rs.All[:0], most)
	for len(rs.All) < most {
		if e := r.order.pop(); e != nil {
			r.give(e, rs)
			continue
		}
		if r.err != nil || r.finished && r.order.empty() {
			break
		}
		if !r.finished {
			r.step()
		}
		if r.finished {
			r.order.release(math.MaxInt64)
		}
	}
	return len(rs.All) > 0
}

// give parses a line whose time has come, and adds its request, if it is one.
func (r *Reader) give(e *entry, rs *Records) {
	c := r.chunks.all[e.chunk]
	line := c.line(e.start, e.size)
	rs.All = rs.All[:len(rs.All)+1]
	rec := &rs.All[len(rs.All)-1]
	r.reset(rec)
	rec.At, rec.File, rec.Line = e.at, e.file, e.line
	why := c.source.parser.parse(line, rec)
	if why == "" {
		rs.lent = append(rs.lent, c)
		return
	}
	rs.All = rs.All[:len(rs.All)-1]
	r.skip(c.source, e.line, line, why)
	r.chunks.release(c)
	if r.err != nil {
		r.order, r.finished = order{}, true
	}
}

// step reads lines of the current file, until records can leave or another file must be read.
func (r *Reader) step() {
	s, rec := r.current, &r.scratch
	for {
		line, start, ok := s.next()
		if !ok {
			r.read += s.read
			if s.chunk != nil {
				r.chunks.release(s.chunk)
			}
			r.files = slices.DeleteFunc(r.files, func(f *source) bool { return f == s })
			r.err = errors.Join(s.err, s.close(), r.turn())
			return
		}
		why := tooLong
		if !s.cut {
			rec.Duration = -1
			why = s.parser.when(line, rec)
		}
		if why != noLine {
			r.stats.Lines++
		}
		if why != "" {
			if r.skip(s, s.line, line, why); r.err != nil {
				return
			}
			continue
		}
		s.newest = max(s.newest, rec.At)
		if rec.At < r.since || rec.At >= r.until {
			r.stats.Skipped++
		} else {
			s.chunk.users++
			if r.order.push(entry{at: rec.At, chunk: s.chunk.index, file: s.index, start: start, size: uint32(len(line)), line: s.line}) {
				r.stats.Late++
			}
		}
		if s.newest > r.others {
			r.err = r.turn()
			return
		}
		if r.order.release(s.newest) {
			return
		}
	}
}

// turn makes the file whose newest request is the earliest the current one.
func (r *Reader) turn() error {
	if len(r.files) == 0 {
		r.finished = true
		return nil
	}
	slices.SortFunc(r.files, func(a, b *source) int { return cmp.Or(cmp.Compare(a.newest, b.newest), cmp.Compare(a.index, b.index)) })
	r.current, r.others = r.files[0], math.MaxInt64
	if len(r.files) > 1 {
		r.others = r.files[1].newest
	}
	r.order.release(r.current.newest)
	if r.current.file == nil && r.current.stdin == nil {
		return r.current.open()
	}
	return nil
}

// mostExamples bounds the bad lines that are shown.
const mostExamples = 5

// skip counts a line that is not a request.
func (r *Reader) skip(s *source, number int32, line, why string) {
	switch {
	case why == noLine:
	case why == noRequest:
		r.stats.Unread++
	case r.options.Strict:
		r.err = fmt.Errorf("logs: %s:%d: %s: %s", s.name, number, why, printable(line))
	default:
		if r.stats.Bad++; len(r.stats.FirstBads) < mostExamples {
			r.stats.FirstBads = append(r.stats.FirstBads, BadLine{File: s.name, Line: number, Why: why, Text: printable(line)})
		}
	}
}

// reset makes a record of which nothing is known.
func (r *Reader) reset(rec *Record) {
	values := rec.Values[:0]
	for range r.layout.Names {
		values = append(values, Missing)
	}
	*rec = Record{}
	rec.Duration, rec.Sent, rec.Received, rec.Values = -1, -1, -1, values
}

// printable returns the beginning of a line, without what a terminal could take for something else than text.
func printable(line string) string {
	const most = 120
	text := page.Inert(line[:min(len(line), most+utf8.UTFMax)])
	for len(text) > most {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text
}
