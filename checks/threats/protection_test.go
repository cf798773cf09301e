package threats

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// protection is a rule of the policy under test, and the model of what it promises: which records
// of services it excludes.
type protection struct {
	name string
	// rule is its configuration.
	rule string
	// handler is the handler of the services that it protects.
	handler string
	// values returns what the service read as the key. Nil: the rule denies every request that
	// its handler serves.
	values func(r *record) []string
	// used are the keys whose limit is used up. Empty is a missing one. It is not in the lists of
	// parameters and cookies: services cannot parse some of them, and a client may as well invent a value.
	used []string
	// requests use up the limits, and are denied from then on. Attacks begin as one of them.
	requests []message
	// spoil writes such a request in another way.
	spoil func(g gen, m *message)
}

// once is a limit that one request uses up for the time of the test.
const once = "limit: {algorithm: fixed_window, rate: 1/30d, starts: first_request}"

func get(path string, lines ...string) message {
	return message{method: "GET", path: path, lines: lines}
}

func post(path string, lines ...string) message {
	return message{method: "POST", path: path, lines: lines}
}

// protections are the rules under test.
var protections = []protection{
	{
		name: "login", rule: "match: {path: /login, method: POST}, always: true", handler: "login",
		requests: []message{post("/login")}, spoil: gen.spoilMethod,
	},
	{
		name: "admin", rule: "match: {path: /admin/**}, always: true", handler: "admin",
		requests: []message{get("/admin/panel"), get("/admin")}, spoil: gen.spoilPath,
	},
	{
		name: "closed", rule: "match: {path: /area/**, unless: {path: /area/open/**}}, always: true", handler: "closed",
		requests: []message{get("/area/shut")}, spoil: gen.spoilPath,
	},
	{
		name: "api", rule: "match: {host: api.example.com}, always: true", handler: "api",
		requests: []message{{method: "GET", path: "/public/x", host: "api.example.com"}}, spoil: gen.spoilHost,
	},
	{
		name: "wild", rule: "match: {host: '*.internal.example'}, always: true", handler: "wild",
		requests: []message{{method: "GET", path: "/public/x", host: "a.internal.example"}}, spoil: gen.spoilHost,
	},
	{
		name: "by-header", rule: `match: {path: /by/header}, key: "header:X-User", ` + once, handler: "header",
		values: func(r *record) []string { return r.User }, used: []string{"eve", ""},
		requests: []message{get("/by/header", "X-User: eve"), get("/by/header")},
		spoil:    func(g gen, m *message) { g.spoilHeader(m, "X-User", "eve", freshWord) },
	},
	{
		name: "by-query", rule: `match: {path: /by/query}, key: "query:user", ` + once, handler: "query",
		values: func(r *record) []string { return r.Query }, used: []string{"eve"},
		requests: []message{{method: "GET", path: "/by/query", query: "?user=eve"}, get("/by/query")},
		spoil:    func(g gen, m *message) { g.spoilQuery(m, "user", "eve", freshWord) },
	},
	{
		name: "by-cookie", rule: `match: {path: /by/cookie}, key: "cookie:session", ` + once, handler: "cookie",
		values: func(r *record) []string { return r.Cookie }, used: []string{"eve"},
		requests: []message{get("/by/cookie", "Cookie: session=eve"), get("/by/cookie")},
		spoil:    func(g gen, m *message) { g.spoilCookie(m, "session", "eve", freshWord) },
	},
	{
		name: "by-bearer", rule: `match: {path: /by/bearer}, key: "header:Authorization", ` + once, handler: "bearer",
		values: func(r *record) []string { return tokens(r.Authorization) }, used: []string{"eve", ""},
		requests: []message{get("/by/bearer", "Authorization: Bearer eve"), get("/by/bearer")},
		spoil:    func(g gen, m *message) { g.spoilToken(m, "eve", freshWord) },
	},
	{
		name: "by-host", rule: `match: {path: /by/host}, key: host, ` + once, handler: "host",
		values: func(r *record) []string { return r.Host }, used: []string{"eve.example"},
		requests: []message{{method: "GET", path: "/by/host", host: "eve.example"}}, spoil: gen.spoilHost,
	},
	{
		name: "by-method", rule: `match: {path: /by/method}, key: method, ` + once, handler: "method",
		values: func(r *record) []string { return []string{kindOf(r.Method)} }, used: []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "made up"},
		requests: []message{
			get("/by/method"),
			{method: "HEAD", path: "/by/method"},
			post("/by/method"),
			{method: "PUT", path: "/by/method"},
			{method: "DELETE", path: "/by/method"},
			{method: "PATCH", path: "/by/method"},
			{method: "OPTIONS", path: "/by/method"},
			{method: "BREW", path: "/by/method"},
		},
		spoil: gen.spoilMethod,
	},
	{
		name: "user", rule: `match: {path: "/users/{id}"}, key: "param:id", ` + once, handler: "user",
		values: func(r *record) []string { return r.ID }, used: []string{"eve"},
		requests: []message{get("/users/eve")}, spoil: gen.spoilPath,
	},
	{
		name: "plan-header", rule: `match: {path: /plan/header, header: {X-Plan: free}}, always: true`, handler: "planheader",
		values: func(r *record) []string { return r.Plan }, used: []string{"free"},
		requests: []message{get("/plan/header", "X-Plan: free")},
		spoil:    func(g gen, m *message) { g.spoilHeader(m, "X-Plan", "free", "paid") },
	},
	{
		name: "plan-query", rule: `match: {path: /plan/query, query: {plan: free}}, always: true`, handler: "planquery",
		values: func(r *record) []string { return r.QueryPlan }, used: []string{"free"},
		requests: []message{{method: "GET", path: "/plan/query", query: "?plan=free"}},
		spoil:    func(g gen, m *message) { g.spoilQuery(m, "plan", "free", "paid") },
	},
	{
		name: "plan-cookie", rule: `match: {path: /plan/cookie, cookie: {plan: free}}, always: true`, handler: "plancookie",
		values: func(r *record) []string { return r.CookiePlan }, used: []string{"free"},
		requests: []message{get("/plan/cookie", "Cookie: plan=free")},
		spoil:    func(g gen, m *message) { g.spoilCookie(m, "plan", "free", "paid") },
	},
	{
		name: "by-claim", rule: `match: {path: /by/claim}, key: "claim:sub", ` + once, handler: "claim",
		values: func(r *record) []string { return subjects(r.Authorization) }, used: []string{"eve"},
		requests: []message{get("/by/claim", "Authorization: Bearer "+signed("eve")), get("/by/claim")},
		spoil:    func(g gen, m *message) { g.spoilToken(m, signed("eve"), signed("ann")) },
	},
	{
		name: "if-header", rule: `match: {path: /if/header, if: 'lower(header("X-Plan")) == "free"'}, always: true`, handler: "ifheader",
		values: func(r *record) []string { return r.Plan }, used: []string{"free"},
		requests: []message{get("/if/header", "X-Plan: free")},
		spoil:    func(g gen, m *message) { g.spoilHeader(m, "X-Plan", "free", "paid") },
	},
	{
		name: "if-query", rule: `match: {path: /if/query, if: 'query("plan") in ["free", "trial"]'}, always: true`, handler: "ifquery",
		values: func(r *record) []string { return r.QueryPlan }, used: []string{"free"},
		requests: []message{{method: "GET", path: "/if/query", query: "?plan=free"}},
		spoil:    func(g gen, m *message) { g.spoilQuery(m, "plan", "free", "paid") },
	},
	{
		name: "if-cookie", rule: `match: {path: /if/cookie, if: 'not (cookie("plan") != "free")'}, always: true`, handler: "ifcookie",
		values: func(r *record) []string { return r.CookiePlan }, used: []string{"free"},
		requests: []message{get("/if/cookie", "Cookie: plan=free")},
		spoil:    func(g gen, m *message) { g.spoilCookie(m, "plan", "free", "paid") },
	},
	{
		// Without the header, the expression cannot be computed.
		name: "if-number", rule: `match: {path: /if/number, if: '100 % number(header("X-Plan")) == 0'}, always: true`, handler: "ifnumber",
		values: func(r *record) []string { return r.Plan }, used: []string{"", "0", "10"},
		requests: []message{get("/if/number", "X-Plan: 10"), get("/if/number")},
		spoil:    func(g gen, m *message) { g.spoilHeader(m, "X-Plan", g.pick("10", "0", ""), "7") },
	},
	signedBy("cookie", 0, 2, `"cookie:session"`, "Cookie: session=%s", func(r *record) []string { return r.Cookie }, func(g gen, m *message, token string) {
		m.lines = []string{"Cookie: session=" + token}
	}),
	signedBy("query", 2, 3, `"query:user"`, "", func(r *record) []string { return r.Query }, func(_ gen, m *message, token string) {
		m.query = "?user=" + url.QueryEscape(token)
	}),
	signedBy("header", 3, 4, `"header:X-User"`, "X-User: %s", func(r *record) []string { return r.User }, func(_ gen, m *message, token string) {
		m.lines = []string{"X-User: " + token}
	}),
	signedBy("auth", 4, 5, `"header:Authorization"`, "Authorization: Bearer %s", func(r *record) []string { return r.Authorization }, func(g gen, m *message, token string) {
		m.lines = []string{"Authorization: " + g.pick("", "Token ", "JWT ", "Bearer ", "ApiKey ", freshWord+" ") + token}
	}),
	{
		name: "if-host", rule: `match: {path: /if/host, if: 'header("Host") == "eve.example"'}, always: true`, handler: "ifhost",
		values: func(r *record) []string { return r.Host }, used: []string{"eve.example"},
		requests: []message{{method: "GET", path: "/if/host", host: "eve.example"}}, spoil: gen.spoilHost,
	},
	{
		// No service gets these headers, so all clients share the budget of requests without them.
		name: "gone", rule: `match: {path: /gone}, key: "{header:X-Real-IP}/{header:X-Forwarded-For}/{header:CF-Connecting-IP}/{header:Forwarded}/{header:Te}/{header:Keep-Alive}/{header:Proxy-Authorization}", ` + once, handler: "gone",
		requests: []message{get("/gone")},
		spoil: func(g gen, m *message) {
			name := g.pick("X-Real-IP", "X-Forwarded-For", "CF-Connecting-IP", "Forwarded", "TE", "Keep-Alive", "Proxy-Authorization")
			if m.lines = []string{name + ": " + freshWord}; g.chance(40) {
				g.spoilHeader(m, name, freshWord, freshWord)
			}
		},
	},
	{
		name: "anonymous", rule: `match: {path: /plan/none, header: {X-Api-Key: {present: false}}}, always: true`, handler: "anonymous",
		values: func(r *record) []string { return r.APIKey }, used: []string{""},
		requests: []message{get("/plan/none")},
		spoil:    func(g gen, m *message) { g.spoilHeader(m, "X-Api-Key", freshWord, "k") },
	},
}

// configuration returns the file of a sluice before a service.
func configuration(listen, service string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nlisten: {proxy: %s, api: off, admin: off}\nupstream: 'http://%s'\nlog: {level: error}\nrules:\n", listen, service)
	for i := range protections {
		fmt.Fprintf(&b, "  - {name: %s, %s}\n", protections[i].name, protections[i].rule)
	}
	return b.String()
}

// forgedAddress and forgedHost are what attacks write into headers that identify the client.
const (
	forgedAddress = "6.6.6.6"
	forgedHost    = "forged.example"
)

// breaches returns the promises that a record breaks.
func breaches(r *record) []string {
	var broken []string
	for i := range protections {
		if p := &protections[i]; slices.Contains(r.Ran, p.handler) && (p.values == nil || slices.ContainsFunc(p.values(r), func(v string) bool { return slices.Contains(p.used, v) })) {
			broken = append(broken, p.name)
		}
	}
	for _, text := range r.Forwarding {
		for line := range strings.Lines(text) {
			if name, value, _ := strings.Cut(line, ":"); identifies(name) && (strings.Contains(value, forgedAddress) || strings.Contains(value, forgedHost)) {
				return append(broken, "forwarding")
			}
		}
	}
	return broken
}

// identifying are the headers from which services take the address or the host of the client, beside
// all that begin with X-Forwarded-.
var identifying = []string{
	"x-forwarded", "forwarded", "forwarded-for", "x-real-ip", "true-client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "x-client-ip", "x-cluster-client-ip",
	"fastly-client-ip", "client-ip", "x-originating-ip", "x-remote-ip", "x-remote-addr", "fly-client-ip", "x-azure-clientip", "x-appengine-user-ip",
	"x-envoy-external-address", "x-original-forwarded-for", "x-proxyuser-ip", "wl-proxy-client-ip", "proxy-client-ip",
}

// identifies reports whether services may take a header for one that identifies the client.
func identifies(name string) bool {
	name = strings.TrimPrefix(strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name)), "http-")
	return slices.Contains(identifying, name) || strings.HasPrefix(name, "x-forwarded-")
}

// tokens returns the tokens of Authorization headers, as services read them: behind their scheme, or without
// one. Credentials with another scheme are not tokens.
func tokens(authorizations []string) []string {
	var all []string
	for _, a := range authorizations {
		switch f := strings.Fields(a); {
		case len(f) == 1:
			a = f[0]
		case len(f) == 2 && strings.EqualFold(f[0], "bearer"):
			a = f[1]
		case a != "":
			a = "no token: " + a
		}
		all = append(all, a)
	}
	return all
}

// jwt is a JSON Web Token, wherever lenient services look for it, with or without padding.
var jwt = regexp.MustCompile(`(?:^|[^\w.-])(ey[\w-]+=*)\.([\w-]+)=*\.[\w-]*`)

// subjects returns the claim sub of the tokens in Authorization headers. A header without a token has none.
func subjects(authorizations []string) []string {
	var all []string
	for _, a := range authorizations {
		for _, token := range jwt.FindAllStringSubmatch(a, -1) {
			var claims struct{ Sub string }
			if payload, err := base64.RawURLEncoding.DecodeString(token[2]); err == nil && json.Unmarshal(payload, &claims) == nil {
				all = append(all, claims.Sub)
			}
		}
	}
	return all
}

// signed returns a token with a subject, whose signature nobody checks.
func signed(subject string) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(`{"sub":"`+subject+`"}`) + ".c2ln"
}

// kindOf returns a method, or that it is made up. Registered methods that no service here uses have
// limits of their own.
func kindOf(method string) string {
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PRI", "PROPFIND", "M-SEARCH", "QUERY", "SEARCH"}, method) {
		return method
	}
	return "made up"
}

// shares returns the budgets that a record of a service belongs to, one for each way in which the
// service may read the key. A budget has one request.
func shares(front string, r *record) []string {
	var all []string
	for i := range protections {
		p := &protections[i]
		if p.values == nil || !strings.HasSuffix(p.rule, once) || !slices.Contains(r.Ran, p.handler) {
			continue
		}
		for way, value := range p.values(r) {
			all = append(all, fmt.Sprintf("%s by %s, way %d: %q", front, p.name, way, value))
		}
	}
	return all
}
