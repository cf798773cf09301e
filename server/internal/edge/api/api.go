package api

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/pipeline"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// OpenAPI describes the calls.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Options configure an API.
type Options struct {
	// Decider decides, and its store ends reservations and resets keys. Required.
	Decider *policy.Decider
	// Pipelines decides the requests of a batch. Default: they are decided one after another.
	Pipelines *pipeline.Pipelines
	// OnVerdict is called once for each verdict that is not a peek, with the time that the decision
	// took. It must not keep or change the verdict. Optional.
	OnVerdict func(v *policy.Verdict, took time.Duration)
	// Fingerprint returns a name for a key that does not reveal the key. Required.
	Fingerprint func(sluice.Key) string
	// Headers set the rate-limit headers of answers. Default: the IETF's.
	Headers *httplimit.Headers
	// Pressure returns the pressure on a rule. It must be safe for concurrent use. Required.
	Pressure func(rule string) float64
	// DeniedKeys returns up to most keys of a rule that the servers of the store denied lately, and whether there are
	// more. Now is left out, unless another server has it. The latest denial comes first. An empty rule means all
	// rules. Required.
	DeniedKeys func(ctx context.Context, rule string, most int) wire.Keys
	// Hybrid returns the hybrid limits of a rule, up to most of their keys, and whether there are more keys. The
	// keys with the most granted units come first. An empty rule means all rules. Default: there are no hybrid limits.
	Hybrid func(rule string, most int) wire.Hybrid
	// Overrides keeps the overrides that calls make. Required.
	Overrides Overrides
	// BeforeChange is called before a call changes a key. After an error nothing is changed, and the call is answered
	// 503 with the error, which names a remedy. Optional.
	BeforeChange func(r *http.Request, c Change) error
	// OnChange is called once for each key that a call changes, whether it succeeds or not. Optional.
	OnChange func(r *http.Request, c Change)
	// AnswerFailed is called with the reason why the answer of a rule cannot be sent. Optional.
	AnswerFailed func(error)
	// Authorize returns an error for a request that may not make calls for operators: a ScopeError if its token lacks
	// the scope. These calls reset and list keys, read the pressure on rules and the state of hybrid limits, and list,
	// make and end bans and overrides. Default: no request may.
	Authorize func(r *http.Request) error
	// Reveals reports whether an authorized request may see the values of listed keys. Default: each may.
	Reveals func(r *http.Request) bool
	// MaxBody bounds the body of a request, in bytes. Default: 1 MiB.
	MaxBody int64
	// MaxTokens bounds the reservations that are open at once. A caller has at most as many as are free. Default:
	// 65,536.
	MaxTokens int
}

// ScopeError is the error of a token that lacks the scope of a call.
type ScopeError interface {
	error
	Remedy() string
}

// API is an http.Handler that decides for other programs. It is safe for concurrent use. Close stops its timer.
type API struct {
	o      Options
	tokens *tokens
	// replays are the answers of calls that may be repeated.
	replays *replays
	calls   map[string][]route
	// described has the phrases of the policy that was last in force.
	described atomic.Pointer[described]
}

// route is one method of a path.
type route struct {
	method string
	serve  func(w http.ResponseWriter, r *http.Request) *problem
	// change names what the call does to a key; empty for a call that changes none.
	change string
}

var _ http.Handler = (*API)(nil)

// New returns an API.
func New(o Options) (*API, error) {
	if o.Decider == nil || o.Fingerprint == nil || o.Pressure == nil || o.DeniedKeys == nil || o.Overrides == nil {
		return nil, errors.New("api: Decider, Fingerprint, Pressure, DeniedKeys and Overrides are required")
	}
	if o.Authorize == nil {
		o.Authorize = func(*http.Request) error {
			return errors.New("calls for operators are off on this listener; use the admin listener, or configure an admin token")
		}
	}
	if o.Reveals == nil {
		o.Reveals = func(*http.Request) bool { return true }
	}
	if o.OnVerdict == nil {
		o.OnVerdict = func(*policy.Verdict, time.Duration) {}
	}
	if o.Hybrid == nil {
		o.Hybrid = func(string, int) wire.Hybrid { return wire.Hybrid{} }
	}
	if o.BeforeChange == nil {
		o.BeforeChange = func(*http.Request, Change) error { return nil }
	}
	if o.OnChange == nil {
		o.OnChange = func(*http.Request, Change) {}
	}
	if o.AnswerFailed == nil {
		o.AnswerFailed = func(error) {}
	}
	if o.Headers == nil {
		h, err := httplimit.NewHeaders(httplimit.HeaderOptions{})
		if err != nil {
			return nil, err
		}
		o.Headers = h
	}
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = 1 << 16
	}
	a := &API{o: o, replays: newReplays()}
	a.tokens = newTokens(o.MaxTokens, a.expire)
	a.calls = map[string][]route{
		"/v1/check":     {{method: http.MethodPost, serve: a.idempotent(a.check)}},
		"/v1/peek":      {{method: http.MethodPost, serve: a.peek}},
		"/v1/usage":     {{method: http.MethodGet, serve: a.usage}},
		"/v1/debit":     {{method: http.MethodPost, serve: a.idempotent(a.debit)}},
		"/v1/reserve":   {{method: http.MethodPost, serve: a.idempotent(a.reserve)}},
		"/v1/settle":    {{method: http.MethodPost, serve: a.settle}},
		"/v1/cancel":    {{method: http.MethodPost, serve: a.cancel}},
		"/v1/acquire":   {{method: http.MethodPost, serve: a.idempotent(a.acquire)}},
		"/v1/renew":     {{method: http.MethodPost, serve: a.renew}},
		"/v1/release":   {{method: http.MethodPost, serve: a.release}},
		"/openapi.yaml": {{method: http.MethodGet, serve: openAPI}},
		"/":             {{method: http.MethodGet, serve: a.index}},
	}
	for path, calls := range a.operations() {
		a.calls[path] = a.authorized(calls)
	}
	return a, nil
}

// Close forgets the open reservations; their charges then last as long as their limits keep them.
// Requests must have ended.
func (a *API) Close() { a.tokens.close() }

// Open returns how many reservations are open.
func (a *API) Open() int { return a.tokens.len() }

// Expired returns how many reservations expired.
func (a *API) Expired() uint64 { return a.tokens.expired.Load() }

// operations are the calls for operators, by their path, without authorization.
func (a *API) operations() map[string][]route {
	once := func(r route) route {
		r.serve = a.idempotent(r.serve)
		return r
	}
	return map[string][]route{
		"/v1/reset": {a.changing(http.MethodPost, "reset", a.reset)},
		"/v1/grant": {once(a.changing(http.MethodPost, "grant", a.grant)), once(a.changing(http.MethodDelete, "withdraw", a.withdraw))},
		"/v1/bans": {
			{method: http.MethodGet, serve: a.listBans},
			a.changing(http.MethodPost, "ban", a.ban), a.changing(http.MethodDelete, "unban", a.unban),
		},
		"/v1/overrides": {
			{method: http.MethodGet, serve: a.listOverrides},
			once(route{method: http.MethodPut, serve: a.changeOverrides(false), change: "override"}),
			once(route{method: http.MethodDelete, serve: a.changeOverrides(true), change: "unset"}),
		},
		"/v1/keys":   {{method: http.MethodGet, serve: a.listKeys}},
		"/v1/hybrid": {{method: http.MethodGet, serve: a.listHybrid}},
		pressurePath: {{method: http.MethodGet, serve: a.pressure}},
	}
}

// Operations are the handlers of the calls for operators, by their patterns, and of the calls that only look. They do
// not check authorization: use them on a listener that does.
func (a *API) Operations() map[string]http.Handler {
	all := map[string]http.Handler{}
	for path, calls := range a.operations() {
		all[path] = a.handler(calls)
	}
	for _, path := range [...]string{"/v1/peek", "/v1/usage"} {
		all[path] = a.handler(a.calls[path])
	}
	all[pressurePath+"/{rule}"] = all[pressurePath]
	return all
}

func (a *API) handler(calls []route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.run(w, r, calls) })
}

// authorized adds authorization to calls.
func (a *API) authorized(calls []route) []route {
	for i := range calls {
		serve := calls[i].serve
		calls[i].serve = func(w http.ResponseWriter, r *http.Request) *problem {
			if err := a.o.Authorize(r); err != nil {
				challenge := `Bearer realm="sluice"`
				p := &problem{
					Status: http.StatusUnauthorized, Title: "Not authorized", Detail: "This call is for operators.", Remedy: err.Error(),
				}
				var lacks ScopeError
				if errors.As(err, &lacks) {
					challenge += `, error="insufficient_scope"`
					p = &problem{Status: http.StatusForbidden, Title: "Missing scope", Detail: "This call is for another scope: " + err.Error() + ".", Remedy: lacks.Remedy()}
				}
				w.Header().Set("WWW-Authenticate", challenge)
				if calls[i].change != "" {
					a.o.OnChange(r, Change{Action: calls[i].change, Status: p.Status, Problem: p.Title})
				}
				return p
			}
			return serve(w, r)
		}
	}
	return calls
}

// ServeHTTP answers one call.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rule, ok := strings.CutPrefix(path, pressurePath+"/"); ok && rule != "" {
		r.SetPathValue("rule", rule)
		path = pressurePath
	}
	c, ok := a.calls[path]
	if !ok {
		writeProblem(w, &problem{
			Status: http.StatusNotFound, Title: "No such call",
			Detail: "There is no call at this path. The calls are " + strings.Join(a.paths(), ", ") + ".",
		})
		return
	}
	a.run(w, r, c)
}

func (a *API) run(w http.ResponseWriter, r *http.Request, calls []route) {
	h := w.Header()
	h["Cache-Control"], h["X-Content-Type-Options"] = noStore, noSniff
	if r.ContentLength < 0 || r.ContentLength > a.o.MaxBody {
		r.Body = http.MaxBytesReader(w, r.Body, a.o.MaxBody)
	}
	var methods []string
	for _, c := range calls {
		if r.Method == c.method || c.method == http.MethodGet && r.Method == http.MethodHead {
			if p := c.serve(w, r); p != nil {
				writeProblem(w, p)
			}
			return
		}
		methods = append(methods, c.method)
	}
	allowed := strings.Join(methods, ", ")
	h.Set("Allow", allowed)
	writeProblem(w, &problem{
		Status: http.StatusMethodNotAllowed, Title: "Wrong method",
		Detail: "This path takes " + allowed + " only.",
	})
}

func (a *API) paths() []string {
	paths := make([]string, 0, len(a.calls))
	for p := range a.calls {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

func openAPI(w http.ResponseWriter, _ *http.Request) *problem {
	h := w.Header()
	h.Set("Content-Type", "application/yaml")
	h.Set("Content-Length", strconv.Itoa(len(OpenAPI)))
	_, _ = w.Write(OpenAPI) // the client may be gone
	return nil
}

func (a *API) index(w http.ResponseWriter, _ *http.Request) *problem {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("Sluice's decision API. Calls:\n  " + strings.Join(a.paths(), "\n  ") + "\n"))
	return nil
}
