package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// Overrides keeps the overrides that calls make. It is safe for concurrent use.
type Overrides interface {
	// Change makes changes, all or none, and returns for each whether there was an override.
	Change(ctx context.Context, changes []wire.KeptOverride) (found []bool, err error)
	// Get returns the override of a key; Removed if there is none.
	Get(ctx context.Context, rule string, k sluice.Key) (wire.KeptOverride, error)
	// List returns up to most overrides of a rule, of which a part of the key begins with a prefix. The first page is after the zero
	// Key, and later pages after next.
	List(ctx context.Context, rule, prefix string, after sluice.Key, most int) (page []wire.KeptOverride, next sluice.Key, more bool, err error)
	// Rules returns the rules that have overrides.
	Rules() []string
	// KeptIn says where the overrides are kept: redis, file or memory.
	KeptIn() string
}

// The bounds of calls about overrides.
const (
	mostOverrides = 1000
	mostNote      = 512
	mostTerms     = 4096
)

// newOverride is the override that a caller wants, or removes.
type newOverride struct {
	Rule      string          `json:"rule"`
	Key       texts           `json:"key"`
	Limit     json.RawMessage `json:"limit,omitempty"`
	Limits    json.RawMessage `json:"limits,omitempty"`
	Plan      string          `json:"plan,omitempty"`
	Unlimited bool            `json:"unlimited,omitempty"`
	Deny      bool            `json:"deny,omitempty"`
	ForMS     *int64          `json:"for_ms,omitempty"`
	Until     *time.Time      `json:"until,omitempty"`
	Note      string          `json:"note,omitempty"`
}

// keyed is a key whose override a caller removes.
type keyed struct {
	Rule string `json:"rule"`
	Key  texts  `json:"key"`
}

// Overrides are the calls of /v1/overrides without authorization. The caller must authorize requests.
func (a *API) Overrides() http.Handler { return a.handler(a.overrideCalls()) }

func (a *API) overrideCalls() []route {
	calls := []route{
		{method: http.MethodGet, serve: a.listOverrides},
		{method: http.MethodPut, serve: a.changeOverrides(false), change: "override"},
		{method: http.MethodDelete, serve: a.changeOverrides(true), change: "unset"},
	}
	for i := range calls {
		serve := calls[i].serve
		if calls[i].change != "" {
			serve = a.idempotent(serve)
		}
		calls[i].serve = func(w http.ResponseWriter, r *http.Request) *problem {
			if a.o.Overrides == nil {
				return &problem{Status: http.StatusNotImplemented, Title: "Not supported", Detail: "This server keeps no overrides.", Remedy: "call a server that sluice serve runs"}
			}
			return serve(w, r)
		}
	}
	return calls
}

// changeOverrides sets overrides, or removes them.
func (a *API) changeOverrides(remove bool) func(http.ResponseWriter, *http.Request) *problem {
	return func(w http.ResponseWriter, r *http.Request) *problem {
		all, one, p := decodeOverrides(r, remove)
		if p != nil {
			return p
		}
		changes, records := make([]wire.KeptOverride, len(all)), make([]Change, len(all))
		now, seen := time.Now(), map[string]int{}
		for i := range all {
			p := a.override(&all[i], &changes[i], now, remove)
			o := &changes[i]
			o.By, o.At = printed(r.Header.Get("Sluice-Operator"), 128), now
			name := o.Rule + " " + strconv.Itoa(o.Key.Len()) + " " + o.Key.Text()
			if first, twice := seen[name]; p == nil && twice {
				p = invalid("key", fmt.Sprintf("The key is that of overrides[%d] too.", first), "give each key once")
			}
			if seen[name] = i; p != nil {
				if !one {
					p.Field = strings.TrimSuffix(fmt.Sprintf("overrides[%d].%s", i, p.Field), ".")
					p.Remedy += "; nothing of the batch was changed"
				}
				return p
			}
			records[i] = Change{Action: "override", Status: http.StatusOK, Terms: o.Terms, Note: o.Note}
			if a.of(&records[i], o.Rule, all[i].Key); !o.Until.IsZero() {
				records[i].For = o.Until.Sub(now)
			}
			if remove {
				records[i].Action = "unset"
			}
		}
		for i := range records {
			if p := a.begin(r, &records[i]); p != nil {
				return p
			}
		}
		found, err := a.o.Overrides.Change(r.Context(), changes)
		for i := range records {
			if err != nil {
				records[i].Status, records[i].Problem = http.StatusServiceUnavailable, "Store unavailable"
			}
			a.o.OnChange(r, records[i])
		}
		if err != nil {
			return unavailable("The overrides were not kept, or that is not known: "+err.Error()+".", "repeat the call; the second time changes nothing more")
		}
		answers := make([]wire.OverrideChanged, len(changes))
		for i := range changes {
			answers[i] = wire.OverrideChanged{Rule: changes[i].Rule, Key: all[i].Key, Existed: found[i], Until: timeOf(changes[i].Until), Kept: a.o.Overrides.KeptIn()}
		}
		if one {
			writeJSON(w, http.StatusOK, answers[0])
		} else {
			writeJSON(w, http.StatusOK, wire.OverridesChanged{Overrides: answers})
		}
		return nil
	}
}

// decodeOverrides reads one override, or a batch.
func decodeOverrides(r *http.Request, remove bool) (all []newOverride, one bool, p *problem) {
	b := buffers.Get().(*[]byte)
	defer keep(b)
	if p := readBody(r, b); p != nil {
		return nil, false, p
	}
	known := fieldsOf(new(newOverride))
	if remove {
		known = fieldsOf(new(keyed))
	}
	seen, p := checkKeys(*b, append(known, "overrides"))
	switch {
	case p != nil:
		return nil, false, p
	case !seen["overrides"]:
		all = make([]newOverride, 1)
		return all, true, decodeValue(*b, &all[0])
	case len(seen) > 1:
		return nil, false, invalid("overrides", `"overrides" is a batch, and there are fields of one override beside it.`, "give each override of the batch its own fields")
	}
	var body struct {
		Overrides []json.RawMessage `json:"overrides"`
	}
	if p := decodeValue(*b, &body); p != nil {
		return nil, false, p
	}
	if n := len(body.Overrides); n < 1 || n > mostOverrides {
		return nil, false, invalid("overrides", fmt.Sprintf("The batch has %d overrides.", n), fmt.Sprintf("give 1 to %d in a call", mostOverrides))
	}
	all = make([]newOverride, len(body.Overrides))
	for i, text := range body.Overrides {
		_, p := checkKeys(text, known)
		if p == nil {
			p = decodeValue(text, &all[i])
		}
		if p != nil {
			p.Field = strings.TrimSuffix(fmt.Sprintf("overrides[%d].%s", i, p.Field), ".")
			return nil, false, p
		}
	}
	return all, false, nil
}

// override reads what a caller wants.
func (a *API) override(q *newOverride, o *wire.KeptOverride, now time.Time, remove bool) *problem {
	if q.Rule == "" {
		return invalid("rule", "The name of the rule is missing.", "name the rule whose key it is")
	}
	p := a.o.Decider.Policy()
	k, err := p.KeyOf(q.Rule, q.Key...)
	var bad *policy.RuleRequestError
	if errors.As(err, &bad) && bad.Unknown && remove {
		// The override of a rule that is gone. Its key is as it was listed.
		k, err = sluice.NewKey(q.Key...), nil
	}
	if err != nil {
		return a.requestProblem(err)
	}
	if o.Rule, o.Key, o.Removed = q.Rule, k, remove; remove {
		return nil
	}
	if o.Terms, err = termsOf(q); err != nil || len(o.Terms) > mostTerms {
		return invalid("limits", fmt.Sprintf("The numbers take more than %d bytes.", mostTerms), "give only the numbers that differ from the rule")
	}
	if err := p.CheckTerms(q.Rule, o.Terms); err != nil {
		return termsProblem(err)
	}
	switch {
	case q.ForMS != nil && q.Until != nil:
		return invalid("until", `There are "for_ms" and "until".`, "give one of them")
	case q.ForMS != nil && (*q.ForMS < 1 || *q.ForMS > maxBanMillis):
		return invalid("for_ms", fmt.Sprintf(`"for_ms" is %d.`, *q.ForMS), fmt.Sprintf("give milliseconds, from 1 to %d", int64(maxBanMillis)))
	case q.ForMS != nil:
		o.Until = now.Add(time.Duration(*q.ForMS) * time.Millisecond)
	case q.Until != nil && !q.Until.After(now):
		return invalid("until", fmt.Sprintf("%s is over.", q.Until.Format(time.RFC3339)), "give a time to come, or leave it out")
	case q.Until != nil && q.Until.Sub(now) > maxBanMillis*time.Millisecond:
		return invalid("until", "The end is more than 100 years away.", "leave it out: the override lasts until somebody removes it")
	case q.Until != nil:
		o.Until = *q.Until
	}
	if !o.Until.IsZero() {
		o.Until = o.Until.Add(time.Second - 1).Truncate(time.Second).UTC()
	}
	if o.Note = printed(q.Note, mostNote); o.Note != q.Note {
		return badNote(q.Note)
	}
	return nil
}

func badNote(note string) *problem {
	return invalid("note", fmt.Sprintf("The note has %d bytes, or characters that cannot be printed.", len(note)), fmt.Sprintf("give a text of one line, of %d bytes at most", mostNote))
}

// termsOf returns the terms in their shortest JSON, so that equal ones are equal texts.
func termsOf(q *newOverride) (string, error) {
	terms := struct {
		Limit     json.RawMessage `json:"limit,omitempty"`
		Limits    json.RawMessage `json:"limits,omitempty"`
		Plan      string          `json:"plan,omitempty"`
		Unlimited bool            `json:"unlimited,omitempty"`
		Deny      bool            `json:"deny,omitempty"`
	}{q.Limit, q.Limits, q.Plan, q.Unlimited, q.Deny}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(terms)
	return strings.TrimSpace(b.String()), err
}

// termsProblem returns the problem of terms that do not fit the rule, with the words of sluice validate.
func termsProblem(err error) *problem {
	var mistakes reader.Errors
	var bad *policy.RuleError
	switch {
	case errors.As(err, &mistakes) && len(mistakes) > 0:
		m := mistakes[0]
		field := strings.TrimPrefix(strings.TrimPrefix(m.Path, "terms"), ".")
		what := m.Problem
		if field != "" {
			what = strconv.Quote(field) + " " + what
		}
		return invalid(field, what+".", m.Suggestion)
	case errors.As(err, &bad):
		return invalid("limit", "The numbers do not fit the rule: "+bad.Problem+".", bad.Remedy)
	}
	return invalid("limit", "The numbers do not fit the rule: "+err.Error()+".", "give other numbers")
}

// printed returns a text without what cannot be printed in a line, and cut to some bytes.
func printed(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) || r == '\ufffd' {
			return -1
		}
		return r
	}, text)
	for len(text) > most {
		text = string([]rune(text)[:len([]rune(text))-1])
	}
	return text
}

// timeOf returns a time for JSON; nil for the zero time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// listOverrides answers with the override of a key, a page of the overrides of a rule, or the rules that have overrides.
func (a *API) listOverrides(w http.ResponseWriter, r *http.Request) *problem {
	values := r.URL.Query()
	q, p := overrideQueryOf(values)
	if p != nil {
		return p
	}
	switch {
	case q.rule == "":
		writeJSON(w, http.StatusOK, wire.OverriddenRules{Rules: listOf(a.o.Overrides.Rules()), Kept: a.o.Overrides.KeptIn()})
		return nil
	case values.Has("key"):
		k, err := a.o.Decider.Policy().KeyOf(q.rule, values["key"]...)
		if err != nil {
			return a.requestProblem(err)
		}
		o, err := a.o.Overrides.Get(r.Context(), q.rule, k)
		if err != nil {
			return unavailable("The store did not read the override: "+err.Error()+".", "try again later")
		}
		if o.Removed {
			return &problem{Status: http.StatusNotFound, Title: "No override", Detail: "The key has no override by call.", Remedy: "see the numbers that the key has with /v1/peek"}
		}
		writeJSON(w, http.StatusOK, a.wireOverride(&o))
		return nil
	}
	list, next, more, err := a.o.Overrides.List(r.Context(), q.rule, values.Get("prefix"), q.after, q.most)
	if err != nil {
		return unavailable("The store did not read the overrides: "+err.Error()+".", "try again later")
	}
	page := wire.Overrides{Overrides: make([]wire.Override, len(list))}
	for i := range list {
		page.Overrides[i] = a.wireOverride(&list[i])
	}
	if more {
		page.Next = strconv.Itoa(next.Len()) + "." + base64.RawURLEncoding.EncodeToString([]byte(next.Text()))
	}
	writeJSON(w, http.StatusOK, page)
	return nil
}

// overrideQuery is which overrides a caller wants.
type overrideQuery struct {
	rule  string
	after sluice.Key
	most  int
}

func overrideQueryOf(values url.Values) (q overrideQuery, p *problem) {
	for name := range values {
		switch name {
		case "rule", "key", "prefix", "from", "most":
		default:
			return q, invalid("?"+name, fmt.Sprintf("There is no parameter %.64q.", name), "the parameters are rule, key, prefix, from and most")
		}
		if name != "rule" && values.Get("rule") == "" {
			return q, invalid("?rule", fmt.Sprintf("There is a parameter %q without a rule.", name), "name the rule")
		}
	}
	q.rule, q.most = values.Get("rule"), 100
	if text := values.Get("most"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostOverrides {
			return q, invalid("?most", fmt.Sprintf("%.32q is not the size of a page.", text), fmt.Sprintf("give a number from 1 to %d, or leave it out for 100", mostOverrides))
		}
		q.most = n
	}
	if text := values.Get("from"); text != "" {
		length, encoded, ok := strings.Cut(text, ".")
		n, err := strconv.Atoi(length)
		key, bad := base64.RawURLEncoding.DecodeString(encoded)
		if !ok || err != nil || n < 0 || bad != nil {
			return q, invalid("?from", "There is no such page.", `give "next" of an earlier page, or leave it out`)
		}
		q.after = sluice.EncodedKey(string(key), n)
	}
	return q, nil
}

// wireOverride returns an override as answers have it.
func (a *API) wireOverride(o *wire.KeptOverride) wire.Override {
	p := a.o.Decider.Policy()
	x := wire.Override{
		Rule: o.Rule, Key: listOf(p.KeyValues(o.Rule, o.Key)), Until: timeOf(o.Until), Note: o.Note, By: o.By, At: timeOf(o.At.UTC()),
	}
	_ = json.Unmarshal([]byte(o.Terms), &x.OverrideTerms) // terms of another version stay empty
	if err := p.CheckTerms(o.Rule, o.Terms); err != nil {
		x.NotInForce = err.Error()
	}
	return x
}
