package app

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/api"
	"github.com/sluicehq/sluice/server/internal/logfile"
	"github.com/sluicehq/sluice/server/internal/telemetry"
)

// audit records who changed what, as lines of JSON. A nil audit records nothing.
type audit struct {
	file    *logfile.File
	tokens  bool               // whether changes need a token
	refused *telemetry.Sampler // bounds the records of calls without a token
	failed  func(error)
}

// record is one line.
type record struct {
	Time time.Time `json:"time"`
	// Action is ban, unban, reset, call, reload, refresh, start or stop. A call was refused before it was read.
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
	// Changed are the settings that a reload changed, or what was read again.
	Changed []string `json:"changed,omitempty"`
	// Result is done or refused, and Why the reason of a refusal.
	Result string `json:"result"`
	Why    string `json:"why,omitempty"`
	// NotRecorded counts refused calls before this one that were not recorded, because they were too many.
	NotRecorded int `json:"not_recorded,omitempty"`
}

// The results of a record.
const (
	done    = "done"
	refused = "refused"
)

// refusedPerSecond bounds the records of calls without a token.
const refusedPerSecond = 10

// openAudit opens the audit log of the configuration.
func (a *App) openAudit() error {
	path := a.file.Audit.File
	if path == "" {
		return nil
	}
	file, err := logfile.Open(path)
	if err != nil {
		return fmt.Errorf("audit.file: %w", err)
	}
	a.audit = &audit{file: file, tokens: a.o.Token != "", refused: telemetry.NewSampler(refusedPerSecond), failed: func(err error) {
		if hidden, ok := a.errorLog.Take(time.Now()); ok {
			a.logger.Error("the audit log cannot be written", "error", err, "not_logged", hidden)
		}
	}}
	return nil
}

// write appends a record.
func (l *audit) write(r record) {
	if l == nil {
		return
	}
	r.Time = time.Now().UTC()
	line, err := json.Marshal(r)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		l.failed(err)
	}
}

// close ends the log.
func (l *audit) close() {
	if l != nil {
		_ = l.file.Close() // each line was written at once
	}
}

// changed records a change by a call.
func (l *audit) changed(q *http.Request, c api.Change) {
	if l == nil {
		return
	}
	r := from(q, l.tokens && c.Status != http.StatusUnauthorized)
	r.Action, r.Rules, r.Key, r.ForMS, r.Result = c.Action, c.Rules, c.Key, c.For.Milliseconds(), done
	if c.Problem != "" {
		r.Result, r.Why = refused, fmt.Sprintf("%d %s", c.Status, c.Problem)
	}
	if c.Status == http.StatusUnauthorized {
		l.bounded(r)
		return
	}
	l.write(r)
}

// turnedAway records a call that the rules of access refused, if it might have changed something.
func (l *audit) turnedAway(q *http.Request, why string) {
	if l == nil || q.Method == http.MethodGet || q.Method == http.MethodHead {
		return
	}
	r := from(q, false)
	r.Action, r.Path, r.Result, r.Why = "call", clean(q.URL.Path), refused, why
	l.bounded(r)
}

// bounded writes the record of a caller without proof, if there were not too many within the second.
func (l *audit) bounded(r record) {
	var ok bool
	if r.NotRecorded, ok = l.refused.Take(time.Now()); ok {
		l.write(r)
	}
}

// operatorHeader names the operator, as the commands of sluice do. Nobody proves it.
const operatorHeader = "Sluice-Operator"

// from returns a record of a caller. The argument is whether it proved its identity with a token.
func from(q *http.Request, token bool) record {
	r := record{From: q.RemoteAddr, Claimed: clean(q.Header.Get(operatorHeader)), By: "no proof"}
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

// reloaded records a reload. Errors of a file have positions; they show no secrets.
func (l *audit) reloaded(changed []string, err error) {
	r := record{Action: "reload", Changed: changed, Result: done}
	if err != nil {
		r.Result, r.Why = refused, firstLine(err)
	}
	l.write(r)
}

// refreshed records that certificates or tokens were read again.
func (l *audit) refreshed(what string, err error) {
	r := record{Action: "refresh", Changed: []string{what}, Result: done}
	if err != nil {
		r.Result, r.Why = refused, firstLine(err)
	}
	l.write(r)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// audited adds the audit to the rules of access of a listener.
func (a *App) audited(r *access.Rules) *access.Rules {
	r.OnRefused = a.audit.turnedAway
	return r
}
