// Package audit records who changed what, as lines of JSON.
package audit

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/sluicehq/sluice/server/internal/observe/logfile"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// Log records changes. A nil Log records nothing. A call makes no change before its record is written; nothing else
// waits for the records. Make it with Open, and end it with Close. All methods are safe for concurrent use.
type Log struct {
	logger *slog.Logger
	file   *logfile.File
	queue  *logfile.Queue
	tokens bool // whether changes need a token
	// unproven bounds the records of calls of the decision API that need the admin token, and have none.
	unproven *sampled.Sampler
	closing  sync.Once
	// turnedDown counts calls that changed nothing because their records could not be written.
	turnedDown atomic.Uint64
}

// Record is one line.
type Record struct {
	Time time.Time `json:"time"`
	// Action is ban, unban, reset, grant, ahead, withdraw, reveal, override, unset, call, reload, refresh, start or
	// stop. A call was refused before it was read.
	Action string `json:"action"`
	// By is how the caller proved its identity, and Claimed the name that it gave without proof.
	By      string `json:"by,omitempty"`
	Claimed string `json:"claimed,omitempty"`
	// From is the address of the caller, and At the address of the listener.
	From string `json:"from,omitempty"`
	At   string `json:"at,omitempty"`
	// Path is the path of a refused call.
	Path  string   `json:"path,omitempty"`
	Rules []string `json:"rules,omitempty"`
	// Key is the fingerprint of the key, as in the log.
	Key   string `json:"key,omitempty"`
	ForMS int64  `json:"for_ms,omitempty"`
	// Units are the units that were given back.
	Units int64 `json:"units,omitempty"`
	// Terms are the numbers of an override, and Note is the note of an override or of units.
	Terms json.RawMessage `json:"terms,omitempty"`
	Note  string          `json:"note,omitempty"`
	// Changed are the settings that a reload changed, or what was read again.
	Changed []string `json:"changed,omitempty"`
	// Result is begun, done or refused, and Why the reason of a refusal. A call that changes keys has a record before
	// the change, begun, and one after it.
	Result string `json:"result"`
	Why    string `json:"why,omitempty"`
	// NotRecorded counts refused calls before this one that were not recorded, because they were too many.
	NotRecorded int `json:"not_recorded,omitempty"`
}

// The results of a record.
const (
	begun   = "begun"
	done    = "done"
	refused = "refused"
)

// refusedPerSecond bounds the records of calls without a token, for each listener.
const refusedPerSecond = 10

// The longest times that a call waits for the record of its change, and the end of the program for the last records.
const (
	recordTime     = time.Second
	lastRecordTime = time.Second
)

// Options configure a Log.
type Options struct {
	// File is the path of the log, see logfile.Open. Without one, nothing is recorded.
	File string
	// Tokens means that changes need a token.
	Tokens bool
	// Logger is the log of the program, and Metrics are its metrics. Required.
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
}

// Open opens the audit log. It returns nil without a file.
func Open(o Options) (*Log, error) {
	if o.File == "" {
		return nil, nil //nolint:nilnil // a nil Log records nothing
	}
	file, err := logfile.Open(o.File)
	if err != nil {
		return nil, fmt.Errorf("audit.file: %w", err)
	}
	failures := sampled.New(o.Logger)
	l := &Log{logger: o.Logger, file: file, tokens: o.Tokens, unproven: sampled.NewSampler(refusedPerSecond)}
	l.queue = logfile.NewQueue(file, func(err error) { failures.Error("the audit log cannot be written", "error", err) })
	o.Metrics.Gauge("sluice_audit_waiting_records", "Records that are not written to the audit log yet. They are tried again.",
		func() float64 { return float64(l.queue.Waiting()) })
	o.Metrics.Counter("sluice_audit_refused_calls_total", "Calls that changed nothing, because their records could not be written to the audit log.",
		func() float64 { return float64(l.turnedDown.Load()) })
	o.Metrics.Counter("sluice_audit_lost_total", "Records that will never be in the audit log, because too many wait to be written.",
		func() float64 { return float64(l.queue.Lost()) })
	return l, nil
}

// Change is what a call did to keys, or tried to do. It has the fields of the decision API's.
type Change struct {
	Action  string
	Rules   []string
	Key     string // the fingerprint
	For     time.Duration
	Units   int64
	Terms   string
	Note    string
	Status  int
	Problem string
}

// write appends a record, without waiting for the file.
func (l *Log) write(r Record) {
	if l != nil {
		l.queue.Put(r.line())
	}
}

// line returns the line of a record that is made now.
func (r *Record) line() []byte {
	r.Time = time.Now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		line = nil // these types are always valid
	}
	return append(line, '\n')
}

// Close writes what is left, and ends the log.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.closing.Do(func() {
		ended := l.queue.Close(lastRecordTime)
		if n := l.queue.Waiting(); n > 0 {
			l.logger.Error("the audit log was not written to its end", "records", n)
		}
		if ended {
			_ = l.file.Close() // otherwise it is in use
		}
	})
}

// Err returns why the last lines were not written; nil if they were.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	return l.file.Err()
}

// Started records that the server starts.
func (l *Log) Started() { l.write(Record{Action: "start", Result: done}) }

// Stopped records that the server stops.
func (l *Log) Stopped() { l.write(Record{Action: "stop", Result: done}) }

// Begin records that a call is about to change keys. After an error, it must not change them.
func (l *Log) Begin(q *http.Request, c Change) error {
	if l == nil {
		return nil
	}
	r := l.of(q, c)
	r.Result = begun
	if err := l.queue.Write(r.line(), recordTime); err != nil {
		l.turnedDown.Add(1)
		return fmt.Errorf("the audit log cannot be written: %w; free the disk of audit.file, or start the reader of its pipe, and repeat the call", err)
	}
	return nil
}

// of returns the record of a call.
func (l *Log) of(q *http.Request, c Change) Record {
	r := from(q, l.tokens && c.Status != http.StatusUnauthorized)
	r.Action, r.Rules, r.Key, r.ForMS, r.Units = c.Action, c.Rules, c.Key, c.For.Milliseconds(), c.Units
	r.Terms, r.Note = json.RawMessage(c.Terms), clean(c.Note)
	return r
}

// Changed records a change by a call.
func (l *Log) Changed(q *http.Request, c Change) {
	if l == nil {
		return
	}
	r := l.of(q, c)
	r.Result = done
	if c.Problem != "" {
		r.Result, r.Why = refused, fmt.Sprintf("%d %s", c.Status, c.Problem)
	}
	if c.Status == http.StatusUnauthorized {
		l.bounded(r, l.unproven)
		return
	}
	l.write(r)
}

// turnedAway records a call that the rules of access of a listener refused, if it might have changed something.
func (l *Log) turnedAway(q *http.Request, why string, bound *sampled.Sampler) {
	if q.Method == http.MethodGet || q.Method == http.MethodHead {
		return
	}
	r := from(q, false)
	r.Action, r.Path, r.Result, r.Why = "call", clean(q.URL.Path), refused, why
	l.bounded(r, bound)
}

// bounded writes the record of a caller without proof, if there were not too many within the second.
func (l *Log) bounded(r Record, bound *sampled.Sampler) {
	var ok bool
	if r.NotRecorded, ok = bound.Take(time.Now()); ok {
		l.write(r)
	}
}

// operatorHeader names the operator, as the commands of sluice do. Nobody proves it.
const operatorHeader = "Sluice-Operator"

// from returns a record of a caller. The argument is whether it proved its identity with a token.
func from(q *http.Request, token bool) Record {
	r := Record{From: q.RemoteAddr, Claimed: clean(q.Header.Get(operatorHeader)), By: "no proof"}
	if _, err := netip.ParseAddrPort(r.From); err != nil {
		r.From = "unix" // a peer at a Unix socket has no address
	}
	if at, ok := q.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		r.At = at.String()
	}
	var proofs []string
	if q.TLS != nil && len(q.TLS.VerifiedChains) > 0 {
		proofs = append(proofs, "certificate "+clean(q.TLS.PeerCertificates[0].Subject.String()))
	}
	if token {
		proofs = append(proofs, "token")
	}
	if len(proofs) > 0 {
		r.By = strings.Join(proofs, ", ")
	}
	return r
}

// mostText bounds a text that a client chose.
const mostText = 128

// clean removes what does not belong in a line from a text that a client chose, and bounds it.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text[:min(len(text), 4*mostText)])
	if runes := []rune(text); len(runes) > mostText {
		text = string(runes[:mostText])
	}
	return text
}

// Reloaded records a reload. Errors of a file have positions; they show no secrets.
func (l *Log) Reloaded(changed []string, err error) {
	r := Record{Action: "reload", Changed: changed, Result: done}
	if err != nil {
		r.Result, r.Why = refused, firstLine(err)
	}
	l.write(r)
}

// Refreshed records that certificates or tokens were read again.
func (l *Log) Refreshed(what string, err error) {
	r := Record{Action: "refresh", Changed: []string{what}, Result: done}
	if err != nil {
		r.Result, r.Why = refused, firstLine(err)
	}
	l.write(r)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Refusals returns a function that records the calls that the rules of access of a listener refuse, nil for a nil Log.
// Each listener has a bound of its own, so that calls of one do not hide calls of another one.
func (l *Log) Refusals() func(q *http.Request, why string) {
	if l == nil {
		return nil
	}
	bound := sampled.NewSampler(refusedPerSecond)
	return func(q *http.Request, why string) { l.turnedAway(q, why, bound) }
}
