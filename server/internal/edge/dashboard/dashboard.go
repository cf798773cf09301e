// Package dashboard is the page for operators on the admin listener, and the calls with its data: what is limited now.
package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/server/internal/observe/live"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// Options configure a Dashboard. All fields are required.
type Options struct {
	// Live returns what the server does now, with keys of a rule. An empty rule means all rules. With all, the numbers
	// are of all servers of the store. It is called once a second for each rule, however many pages are open.
	Live func(ctx context.Context, rule string, all bool) *wire.Live
	// Rules returns the rules in words.
	Rules func() wire.Rules
	// Known reports whether there is a rule.
	Known func(rule string) bool
	// History returns what a rule did in a span, such as "hour", on this server or on all servers.
	History func(ctx context.Context, rule, span string, all bool) *wire.History
	// KeyOf returns the values of a key that Live listed; nil if it is listed no more.
	KeyOf func(ctx context.Context, rule, digest string) []string
	// BeforeReveal records that an operator is about to see a key. After an error, the key is not shown.
	BeforeReveal func(r *http.Request, rule, digest string) error
	// Reset, Unban and Override are the calls of the API that change a key.
	Reset, Unban, Override http.Handler
	// Operates reports whether a request may make the calls that change a key.
	Operates func(r *http.Request) bool
	// Draining is closed when streams should end.
	Draining <-chan struct{}
}

// Dashboard has the calls of the page. Make it with New. It is safe for concurrent use.
type Dashboard struct {
	o       Options
	frames  frames
	streams chan struct{} // one element for each open stream
	readers chan struct{} // the same, of callers that only read
}

// New returns a Dashboard.
func New(o Options) *Dashboard {
	return &Dashboard{o: o, frames: frames{make: o.Live, of: map[view]*frame{}}, streams: make(chan struct{}, mostStreams), readers: make(chan struct{}, mostReaders)}
}

// Calls returns the calls with data, by their paths.
func (d *Dashboard) Calls() map[string]http.Handler {
	return map[string]http.Handler{
		"/v1/live":    only(http.MethodGet, d.live),
		"/v1/rules":   only(http.MethodGet, d.rules),
		"/v1/history": only(http.MethodGet, d.history),
		"/ui/reveal":  only(http.MethodPost, d.reveal),
		"/ui/reset":   only(http.MethodPost, d.acting(http.MethodPost, d.o.Reset)),
		"/ui/unban":   only(http.MethodPost, d.acting(http.MethodDelete, d.o.Unban)),
		// An override is set by one path, and removed by the other one.
		"/ui/override": only(http.MethodPost, d.acting(http.MethodPut, d.o.Override)),
		"/ui/unset":    only(http.MethodPost, d.acting(http.MethodDelete, d.o.Override)),
	}
}

// only answers requests of one method.
func only(method string, serve func(http.ResponseWriter, *http.Request) *wire.Problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		p := &wire.Problem{Status: http.StatusMethodNotAllowed, Title: "Wrong method", Detail: "This path takes " + method + " only."}
		if r.Method == method || r.Method == http.MethodHead && method == http.MethodGet {
			p = serve(w, r)
		} else {
			h.Set("Allow", method)
		}
		if p != nil {
			p.Type = "about:blank"
			answer(w, p.Status, "application/problem+json", p)
		}
	})
}

// answer writes an answer of JSON.
func answer(w http.ResponseWriter, status int, kind string, v any) {
	text, _ := json.Marshal(v) // it is plain data
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}

// allServers is the value of the parameter servers that adds the other servers of the store.
const allServers = "all"

// query reads the parameters of a call, and refuses others.
func (d *Dashboard) query(r *http.Request, names ...string) (values map[string]string, p *wire.Problem) {
	values = map[string]string{}
	for name, given := range r.URL.Query() {
		if !slices.Contains(names, name) || len(given) != 1 {
			return nil, invalid("?"+name, fmt.Sprintf("The parameter %.64q is unknown, or given twice.", name), "the parameters are "+strings.Join(names, " and "))
		}
		values[name] = given[0]
	}
	if rule := values["rule"]; rule != "" && !d.o.Known(rule) {
		return nil, invalid("?rule", fmt.Sprintf("There is no rule %.64q.", rule), "GET /v1/rules lists the rules")
	}
	if s := values["servers"]; s != "" && s != "this" && s != allServers {
		return nil, invalid("?servers", fmt.Sprintf("%.32q is not a choice of servers.", s), "give this or all")
	}
	return values, nil
}

func invalid(field, detail, remedy string) *wire.Problem {
	return &wire.Problem{Status: http.StatusBadRequest, Title: "Invalid request", Field: field, Detail: detail, Remedy: remedy}
}

func (d *Dashboard) rules(w http.ResponseWriter, r *http.Request) *wire.Problem {
	if _, p := d.query(r); p != nil {
		return p
	}
	answer(w, http.StatusOK, "application/json", d.o.Rules())
	return nil
}

// history answers with what a rule did in the last hour or day.
func (d *Dashboard) history(w http.ResponseWriter, r *http.Request) *wire.Problem {
	values, p := d.query(r, "rule", "span", "servers")
	if p != nil {
		return p
	}
	span := cmp.Or(values["span"], live.SpanNames[live.Hour])
	if !slices.Contains(live.SpanNames[:], span) {
		return invalid("?span", fmt.Sprintf("%.32q is not a span.", values["span"]), "give hour or day")
	}
	answer(w, http.StatusOK, "application/json", d.o.History(r.Context(), values["rule"], span, values["servers"] == allServers))
	return nil
}
