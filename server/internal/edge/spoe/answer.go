package spoe

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
)

// The parts of an action that sets a variable.
const (
	actionSet     = 1
	arguments     = 3
	ofTransaction = 2
)

// answer is the acknowledgement of a message: a frame of variables. Names of variables have the prefix of the agent in
// HAProxy's configuration.
type answer struct {
	b    []byte
	at   int // where the frame begins
	most int // the size of the largest frame
}

func newAnswer(b []byte, stream, id uint64, most uint32) *answer {
	return &answer{b: beginFrame(b, frameAck, stream, id), at: len(b), most: int(most)}
}

// set appends a variable, unless it does not fit into the frame.
func (a *answer) set(name string, value func([]byte) []byte) {
	before := len(a.b)
	a.b = value(appendText(append(a.b, actionSet, arguments, ofTransaction), name))
	if len(a.b)-a.at-4 > a.most {
		a.b = a.b[:before]
	}
}

func (a *answer) truth(name string, v bool) {
	a.set(name, func(b []byte) []byte { return appendBoolValue(b, v) })
}

func (a *answer) number(name string, n int) {
	a.set(name, func(b []byte) []byte { return appendInt32Value(b, int32(n)) })
}

func (a *answer) text(name, text string) {
	a.set(name, func(b []byte) []byte { return appendStringValue(b, text) })
}

// headers sets a variable for each header, such as prefix.retry_after.
func (a *answer) headers(prefix string, h http.Header) {
	for name, lines := range h {
		a.text(prefix+variable(name), strings.Join(lines, ", "))
	}
}

// lines returns a line for each header, without Content-Length.
func lines(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if name != "Content-Length" {
				b.WriteString(name + ": " + value + "\n")
			}
		}
	}
	return b.String()
}

// variable returns the name of a variable for the name of a header.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// end completes the frame.
func (a *answer) end() []byte {
	putLength(a.b, a.at)
	return a.b
}

// unusable answers a message that describes no request.
func (a *answer) unusable(problem string) { a.text("problem", problem) }

// verdict answers with a verdict. The variables come in the order of their importance.
func (a *answer) verdict(d *gateway.Decider, r *http.Request, v *policy.Verdict, denied bool) {
	reply := gateway.NewAnswer()
	if denied {
		d.WriteDenied(reply, v)
	} else {
		d.SetLimits(reply.Header(), v)
	}
	a.truth("allowed", !denied)
	action := v.Action
	if denied {
		action = policy.Deny
	}
	a.text("action", action.String())
	if denied {
		a.number("status", reply.Status)
		if wait := seconds(v); wait > 0 {
			a.number("retry_after", wait)
		}
	}
	if reason := v.Reason.String(); reason != "" {
		a.text("reason", reason)
	}
	if v.Rule != nil {
		a.text("rule", v.Rule.Name)
	}
	if v.FellBack() {
		a.truth("degraded", true)
	}
	if denied {
		a.text("headers", lines(reply.Header()))
	}
	a.headers("header.", reply.Header())
	switch {
	case len(reply.Body) > 0:
		a.text("body", string(reply.Body))
	case !denied && (v.Mark != nil || v.Degrade != nil):
		if v.Mark != nil {
			a.text("mark", v.Mark.Name)
		}
		if v.Degrade != nil {
			a.text("degrade", v.Degrade.Name)
		}
		set, _ := d.PassedHeaders(r, v)
		a.headers("request.", set)
	}
}

// seconds returns the wait of a denied request in whole seconds, rounded up; 0 if no wait helps.
func seconds(v *policy.Verdict) int {
	const most = 1<<31 - 1
	return int(min((v.RetryAfter()+999_999_999)/1_000_000_000, most))
}
