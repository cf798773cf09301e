package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// Overrides keeps the overrides that calls make. It is safe for concurrent use.
type Overrides interface {
	// Change makes changes, all or none, and returns for each whether there was an override.
	Change(ctx context.Context, changes []wire.KeptOverride) (found []bool, err error)
	// Update changes the override of a key to what a function makes of it, which is called again if another server
	// changes it meanwhile; Removed means none. If the function returns an error, nothing changes.
	Update(ctx context.Context, rule string, k sluice.Key, change func(before wire.KeptOverride) (wire.KeptOverride, error)) error
	// Get returns the override of a key; Removed if there is none.
	Get(ctx context.Context, rule string, k sluice.Key) (wire.KeptOverride, error)
	// List returns up to most overrides of a rule, of which a part of the key begins with a prefix. The first page is
	// after the zero Key, and later pages after next.
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

// newOverride is the override that a caller wants.
type newOverride struct {
	keyOfRule
	wire.OverrideTerms
	ending
	Note string `json:"note,omitempty"`
}

// ending is when an override ends, or units ahead.
type ending struct {
	ForMS *int64  `json:"for_ms,omitempty"`
	Until *moment `json:"until,omitempty"`
}

// moment is when an override ends.
type moment struct{ time.Time }

// UnmarshalJSON reads a time.
func (m *moment) UnmarshalJSON(data []byte) error {
	if m.Time.UnmarshalJSON(data) != nil {
		return invalid("until", fmt.Sprintf(`"until" is %.64s, and a time is wanted.`, data), `write it as in "2030-01-31T18:00:00Z"`)
	}
	return nil
}

// changeOverrides sets overrides, or removes them. One override is a batch of one.
func (a *API) changeOverrides(remove bool) func(http.ResponseWriter, *http.Request) *problem {
	return func(w http.ResponseWriter, r *http.Request) *problem {
		wanted, batch, p := overridesOf(r, remove)
		if p != nil {
			return p
		}
		changes, records, answers := make([]wire.KeptOverride, len(wanted)), make([]Change, len(wanted)), make([]wire.OverrideChanged, len(wanted))
		now, seen := time.Now(), map[string]int{}
		for i := range wanted {
			q, o := &wanted[i], &changes[i]
			p := a.override(r.Context(), q, o, &answers[i], now, remove)
			name := o.Rule + " " + strconv.Itoa(o.Key.Len()) + " " + o.Key.Text()
			if first, twice := seen[name]; p == nil && twice {
				p = invalid("key", fmt.Sprintf("The key is the key of overrides[%d] too.", first), "give each key once")
			}
			if seen[name] = i; p != nil && batch {
				return inBatch(p, i, len(wanted))
			}
			if p != nil {
				return p
			}
			o.By, o.At = printed(r.Header.Get("Sluice-Operator"), 128), now
			answers[i].Rule, answers[i].Key, answers[i].Until, answers[i].Kept = o.Rule, listOf(a.o.Decider.Policy().KeyValues(o.Rule, o.Key)), o.Until, a.o.Overrides.KeptIn()
			records[i] = Change{Action: "override", Status: http.StatusOK, Terms: o.Terms, Note: o.Note}
			if a.of(&records[i], o.Rule, q.Key); !o.Until.IsZero() {
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
			} else {
				answers[i].Existed = found[i]
			}
			a.o.OnChange(r, records[i])
		}
		switch {
		case err != nil:
			return unavailable("The overrides were not kept, or that is not known: "+err.Error()+".", "repeat the call; the second time changes nothing more")
		case batch:
			writeJSON(w, http.StatusOK, wire.OverridesChanged{Overrides: answers})
		default:
			writeJSON(w, http.StatusOK, answers[0])
		}
		return nil
	}
}

// fieldsOfChange returns what the body of a change, or an entry of a batch, is read into.
func (q *newOverride) fieldsOfChange(remove bool) any {
	if remove {
		return &q.keyOfRule
	}
	return q
}

// overridesOf reads an override, or each override of a batch.
func overridesOf(r *http.Request, remove bool) (all []newOverride, batch bool, p *problem) {
	b := buffers.Get().(*[]byte)
	defer keep(b)
	if p := readBody(r, b); p != nil {
		return nil, false, p
	}
	var body struct {
		Overrides []json.RawMessage `json:"overrides"`
	}
	all = make([]newOverride, 1)
	seen, p := checkKeys(*b, append(fieldsOf(all[0].fieldsOfChange(remove)), "overrides"))
	if batch = seen["overrides"]; p == nil && !batch {
		p = decodeValue(*b, all[0].fieldsOfChange(remove))
	}
	if p != nil || !batch {
		return all, false, p
	}
	switch p, n := decodeValue(*b, &body), len(body.Overrides); {
	case len(seen) > 1:
		return nil, true, invalid("overrides", `"overrides" is a batch, and there are fields of one override beside it.`, "give each override of the batch its own fields")
	case p != nil:
		return nil, true, p
	case n < 1 || n > mostOverrides:
		return nil, true, invalid("overrides", fmt.Sprintf("The batch has %d overrides.", n), fmt.Sprintf("give 1 to %d in a call", mostOverrides))
	}
	all = make([]newOverride, len(body.Overrides))
	for i, text := range body.Overrides {
		if p := decodeObject(text, all[i].fieldsOfChange(remove)); p != nil {
			return nil, true, inBatch(p, i, len(all))
		}
	}
	return all, true, nil
}

// inBatch makes a problem of an override the problem of a batch of so many.
func inBatch(p *problem, i, of int) *problem {
	at := fmt.Sprintf("overrides[%d]", i)
	p.Field, p.Detail = strings.TrimSuffix(at+"."+p.Field, "."), at+": "+p.Detail
	if of > 1 {
		p.Remedy += "; nothing of the batch was changed"
	}
	return p
}

// override makes the change that a caller wants, and a warning about it.
func (a *API) override(ctx context.Context, q *newOverride, o *wire.KeptOverride, c *wire.OverrideChanged, now time.Time, remove bool) (p *problem) {
	k, err := a.o.Decider.Policy().KeyOf(q.Rule, q.Key...)
	if remove {
		k, err = a.listedKey(ctx, q.Rule, q.Rule, q.Key)
	}
	if err != nil {
		return a.requestProblem(err)
	}
	if o.Rule, o.Key, o.Removed = q.Rule, k, remove; remove {
		return nil
	}
	if p := tooLong(k); p != nil {
		return p
	}
	if o.Terms, err = termsOf(&q.OverrideTerms); err != nil || len(o.Terms) > mostTerms {
		return invalid("limits", fmt.Sprintf("The numbers take more than %d bytes.", mostTerms), "give only the numbers that differ from the rule")
	}
	if c.Warning, err = a.o.Decider.Policy().CheckTerms(q.Rule, o.Terms); err != nil {
		return termsProblem(err)
	}
	if o.Until, p = q.end(now); p != nil {
		return p
	}
	if o.Note = printed(q.Note, mostNote); o.Note != q.Note {
		return badNote(q.Note)
	}
	return nil
}

// isGone reports whether a rule has overrides, and the policy does not have it.
func (a *API) isGone(rule string) bool {
	return a.o.Decider.Policy().Rule(rule) == nil && slices.Contains(a.o.Overrides.Rules(), rule)
}

// listedKey returns the key of an override, or of units ahead under another name, from the values that a list shows.
// The rule may be gone, or its keys may have other parts by now: then they are all parts of the key.
func (a *API) listedKey(ctx context.Context, rule, name string, values []string) (sluice.Key, error) {
	k, err := a.o.Decider.Policy().KeyOf(rule, values...)
	all := sluice.NewKey(values...)
	if a.isGone(rule) {
		return all, nil
	}
	if a.o.Decider.Policy().Rule(rule) == nil || err == nil && k == all {
		return k, err
	}
	exists := func(k sluice.Key) bool {
		o, bad := a.o.Overrides.Get(ctx, name, k)
		return bad == nil && !o.Removed
	}
	if exists(all) && (err != nil || !exists(k)) {
		return all, nil //nolint:nilerr // the values are of an earlier key
	}
	return k, err
}

// end returns the end in whole seconds, rounded up; the zero time for none.
func (q *ending) end(now time.Time) (end time.Time, p *problem) {
	switch {
	case q.ForMS != nil && q.Until != nil:
		return end, invalid("until", `There are "for_ms" and "until".`, "give one of them")
	case q.ForMS != nil:
		length, p := lengthOfChange(*q.ForMS)
		if p != nil {
			return end, p
		}
		end = now.Add(length)
	case q.Until == nil:
		return end, nil
	case !q.Until.After(now):
		return end, invalid("until", fmt.Sprintf(`"until" is %s, which is over.`, q.Until.Format(time.RFC3339)), "give a time to come, or leave it out")
	case q.Until.Sub(now) > maxBanMillis*time.Millisecond:
		return end, invalid("until", `"until" is more than 100 years away.`, "give an earlier time, or leave it out")
	default:
		end = q.Until.Time
	}
	return end.Add(time.Second - 1).Truncate(time.Second).UTC(), nil
}

// tooLong returns the problem of a key that a policy.OverrideTable does not take.
func tooLong(k sluice.Key) *problem {
	if n := len(k.Text()); n > math.MaxUint16 {
		return invalid("key", fmt.Sprintf("The key has %d bytes.", n), fmt.Sprintf("shorten it to %d bytes", math.MaxUint16))
	}
	return nil
}

func badNote(note string) *problem {
	remedy := fmt.Sprintf("give a text of one line, of %d bytes at most", mostNote)
	if len(note) > mostNote {
		return invalid("note", fmt.Sprintf("The note has %d bytes.", len(note)), remedy)
	}
	return invalid("note", "The note has characters that cannot be printed.", remedy)
}

// termsOf returns the terms in their shortest JSON, so that equal ones are equal texts.
func termsOf(t *wire.OverrideTerms) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(t)
	return strings.TrimSpace(b.String()), err
}

// termsProblem returns the problem of terms that do not fit the rule, with the words of sluice validate.
func termsProblem(err error) *problem {
	var mistakes reader.Errors
	var bad *policy.RuleError
	switch {
	case errors.As(err, &mistakes) && len(mistakes) > 0:
		m := mistakes[0]
		field := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(m.Path, "terms"), "."), "limits")
		return invalid(field, strconv.Quote(field)+" "+m.Problem+".", m.Suggestion)
	case errors.As(err, &bad):
		return invalid("limit", "The numbers do not fit the rule: "+bad.Problem+".", bad.Remedy)
	}
	return invalid("limit", "The numbers do not fit the rule: "+err.Error()+".", "give other numbers")
}

// printed returns a text without what cannot be printed in a line, and cut to some bytes.
func printed(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// listOverrides answers with the override of a key, a page of the overrides or of the units ahead of a rule, or the
// rules that have overrides.
func (a *API) listOverrides(w http.ResponseWriter, r *http.Request) *problem {
	values, p := parameters(r, "rule", "key", "prefix", "from", "most", "ahead")
	if p != nil {
		return p
	}
	rule, ahead := values.Get("rule"), values.Get("ahead")
	switch delete(values, "rule"); {
	case rule == "" && len(values) > 0:
		return invalid("?rule", "The name of the rule is missing.", "name the rule, or leave out the other parameters")
	case rule == "":
		writeJSON(w, http.StatusOK, wire.OverriddenRules{Rules: listOf(a.o.Overrides.Rules()), Kept: a.o.Overrides.KeptIn()})
		return nil
	case values.Has("key") && len(values) > 1:
		return invalid("?key", "The key names one override, and there are parameters of a list.", "leave out key, or the other parameters")
	case ahead != "" && ahead != "true":
		return invalid("?ahead", fmt.Sprintf("%.32q is not true.", ahead), "give ahead=true for the keys with units ahead, or leave it out")
	case values.Has("key"):
		return a.getOverride(w, r, rule, values["key"])
	case a.o.Decider.Policy().Rule(rule) == nil && !a.isGone(rule):
		return inQuery(a.requestProblem(&policy.RuleRequestError{Rule: rule, Unknown: true, Problem: "is unknown"}))
	}
	most, p := lengthOf(values)
	if p != nil {
		return p
	}
	after, p := pageAfter(values.Get("from"))
	if p != nil {
		return p
	}
	of := rule
	if ahead != "" {
		of = policy.AllowancesOf(rule)
	}
	list, next, more, err := a.o.Overrides.List(r.Context(), of, values.Get("prefix"), after, most)
	if err != nil {
		return unavailable("The store did not read the overrides: "+err.Error()+".", "try again later")
	}
	page := wire.Overrides{Overrides: make([]wire.Override, len(list))}
	for i := range list {
		if page.Overrides[i], p = a.wireOverride(r.Context(), rule, &list[i]); p != nil {
			return p
		}
	}
	if more {
		page.Next = strconv.Itoa(next.Len()) + "." + base64.RawURLEncoding.EncodeToString([]byte(next.Text()))
	}
	writeJSON(w, http.StatusOK, page)
	return nil
}

// getOverride answers with the override of a key.
func (a *API) getOverride(w http.ResponseWriter, r *http.Request, rule string, key []string) *problem {
	k, err := a.listedKey(r.Context(), rule, rule, key)
	if err != nil {
		return inQuery(a.requestProblem(err))
	}
	o, err := a.o.Overrides.Get(r.Context(), rule, k)
	if err != nil {
		return unavailable("The store did not read the override: "+err.Error()+".", "try again later")
	}
	if o.Removed {
		return &problem{Status: http.StatusNotFound, Title: "No override", Detail: "The key has no override by call.", Remedy: "see the numbers that the key has with /v1/peek"}
	}
	x, p := a.wireOverride(r.Context(), rule, &o)
	if p == nil {
		writeJSON(w, http.StatusOK, x)
	}
	return p
}

// pageAfter reads the key after which a page begins; the zero Key for the first page.
func pageAfter(from string) (after sluice.Key, p *problem) {
	if from == "" {
		return after, nil
	}
	length, encoded, ok := strings.Cut(from, ".")
	n, err := strconv.Atoi(length)
	key, bad := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil || n < 0 || bad != nil {
		return after, invalid("?from", "There is no such page.", `give "next" of an earlier page, or leave it out`)
	}
	return sluice.EncodedKey(string(key), n), nil
}

// wireOverride returns an override of a rule, or units ahead, as answers have it.
func (a *API) wireOverride(ctx context.Context, rule string, o *wire.KeptOverride) (x wire.Override, p *problem) {
	now := a.o.Decider.Policy()
	x = wire.Override{
		Rule: rule, Key: listOf(now.KeyValues(rule, o.Key)), Until: o.Until.UTC(), Note: o.Note, By: o.By, At: o.At.UTC(),
	}
	if k, err := now.KeyOf(rule, x.Key...); now.Rule(rule) != nil && (err != nil || k != o.Key) {
		x.NotInForce = "the key has other parts than the keys of the rule"
	}
	if o.Rule != rule {
		if x.NotInForce != "" {
			return x, p
		}
		if x.Ahead, p = a.unitsAhead(ctx, rule, x.Key); x.Ahead == nil {
			x.NotInForce = "the rule names no bound for units ahead, or they have ended"
		}
		return x, p
	}
	_ = json.Unmarshal([]byte(o.Terms), &x.OverrideTerms) // terms of another version stay empty
	var err error
	if x.Warning, err = now.CheckTerms(rule, o.Terms); err != nil {
		x.NotInForce = err.Error()
	}
	return x, nil
}
