package describe

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Phrases describe verdicts. They keep the texts about rules and limits that were described before, so they should
// be made once for each policy. They are safe for concurrent use. The zero Phrases are ready.
type Phrases struct {
	limits       sync.Map // *sluice.Limit → limitPhrases
	consequences sync.Map // consequence → string
}

// limitPhrases are the texts about a limit.
type limitPhrases struct {
	text, algorithm string
	line            string // of a plain result
}

// consequence is a rule that limits a request, and why.
type consequence struct {
	rule   *policy.Rule
	reason sluice.Reason
}

// limit returns the texts about a limit.
func (p *Phrases) limit(l *sluice.Limit) limitPhrases {
	if known, ok := p.limits.Load(l); ok {
		return known.(limitPhrases)
	}
	texts := limitPhrases{text: Limit(l), algorithm: l.Algorithm().String()}
	texts.line = string(appendLine(nil, plainLimit(l, texts.text)))
	p.limits.Store(l, texts)
	return texts
}

// isPlain reports whether a result is described by its limit only.
func isPlain(m *policy.LimitResult) bool {
	return m.Listed == policy.NotListed && m.Role != policy.RoleCandidate && !m.Override && m.From == policy.FromRule && m.Request.Cost == 1 && m.Request.Floor <= 0 && !m.Settles()
}

// plainLimit describes the limit of a plain result, as limitResult does.
func plainLimit(l *sluice.Limit, text string) line {
	return limitResult(&policy.LimitResult{Request: sluice.Request{Limit: l, Cost: 1}}, text)
}

// consequencesOf returns the lines about what a rule does besides counting.
func (p *Phrases) consequencesOf(r *policy.Rule, reason sluice.Reason) string {
	c := consequence{r, reason}
	if known, ok := p.consequences.Load(c); ok {
		return known.(string)
	}
	var b []byte
	for _, l := range consequences(r, reason, nil) {
		b = appendLine(b, l)
	}
	p.consequences.Store(c, string(b))
	return string(b)
}

// Verdict describes a verdict: what happens to the request and why. Then it describes each rule
// that the request matched, with its limits, in the words of Trace. The text contains no key.
func (p *Phrases) Verdict(v *policy.Verdict) string {
	b := make([]byte, 0, expectedVerdict)
	b = append(append(b, v.String()...), '\n')
	if v.Class != "" && !v.Bypass {
		b = append(append(append(b, "  class "...), v.Class...), '\n')
	}
	for i := 0; i < len(v.Results); {
		r := v.Results[i].Rule
		b = append(append(append(b, "  rule "...), r.Name...), '\n')
		for ; i < len(v.Results) && v.Results[i].Rule == r; i++ {
			m := &v.Results[i]
			if texts := p.limit(m.Request.Limit); isPlain(m) {
				b = append(b, texts.line...)
			} else {
				b = appendLine(b, limitResult(m, texts.text))
			}
			if m.Listed == policy.NotListed {
				b = append(appendDecision(appendAspect(b, "so"), m, v.Err == nil), '\n')
			}
		}
		reason := sluice.ReasonNone
		if r == v.Rule && !v.Allowed() {
			reason = v.Reason
		}
		b = append(b, p.consequencesOf(r, reason)...)
	}
	return string(b[:len(b)-1]) // without the last line end
}

// expectedVerdict is about the size of the description of a verdict with one limit, in bytes.
const expectedVerdict = 384

// appendDecision describes what the store decided about a limit.
func appendDecision(b []byte, m *policy.LimitResult, decided bool) []byte {
	d := &m.Decision
	switch d.Reason {
	case sluice.ReasonMissingKey:
		return append(b, "a part of the key is missing"...)
	case sluice.ReasonRepeatedKey:
		return append(b, "a part of the key has several values"...)
	case sluice.ReasonUnknownPlan:
		return append(b, "the plan is unknown"...)
	}
	if !decided {
		return append(b, "not decided"...)
	}
	switch {
	case m.Ahead != nil:
		b = fmt.Appendf(b, "allowed by units ahead: %d of %d remain until %s; of the limit", m.Ahead.Remaining, m.Ahead.Units, m.Ahead.Until.UTC().Format(time.RFC3339))
	case d.Allowed:
		b = append(b, "allowed"...)
	default:
		b = append(append(b, "denied: "...), d.Reason.String()...)
	}
	switch {
	case d.Degraded: // what remains is not known
	case m.Ahead != nil:
		b = append(strconv.AppendInt(append(strconv.AppendInt(append(b, ", "...), m.Ahead.Left, 10), " of "...), d.Limit, 10), " remain"...)
	default:
		b = strconv.AppendInt(append(b, "; "...), d.Remaining, 10)
		b = append(strconv.AppendInt(append(b, " of "...), d.Limit, 10), " remain"...)
	}
	if d.Delay > 0 {
		b = append(append(b, "; delay "...), Duration(d.Delay)...)
	}
	if d.RetryAfter > 0 {
		b = append(append(b, "; retry after "...), Duration(d.RetryAfter)...)
	}
	if d.ResetAfter > 0 && !d.Degraded {
		b = append(append(b, "; full again after "...), Duration(d.ResetAfter)...)
	}
	if d.Degraded {
		b = append(b, "; decided by a fallback"...)
	}
	if d.Overflow {
		b = append(b, "; in a budget shared by keys that found no room"...)
	}
	if m.Returned {
		b = append(b, "; given back"...)
	}
	return b
}
