package threats

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// ends returns the values that services read: most read the first one, others the last one.
func ends(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return []string{values[0], values[len(values)-1]}
}

// newMux returns a service that finds its handlers with an http.ServeMux.
func newMux(c *records) http.Handler {
	mux := http.NewServeMux()
	handle := func(name string, patterns ...string) {
		for _, p := range patterns {
			mux.HandleFunc(p, func(w http.ResponseWriter, r *http.Request) { serveMux(c, name, w, r) })
		}
	}
	handle("login", "POST /login", "POST /login/{$}")
	handle("admin", "/admin", "/admin/")
	handle("closed", "/area/")
	handle("public", "/area/open", "/area/open/", "/public/")
	for _, name := range []string{"header", "query", "cookie", "bearer", "claim", "host", "method"} {
		handle(name, "/by/"+name, "/by/"+name+"/{$}")
	}
	for _, name := range []string{"header", "query", "cookie"} {
		handle("plan"+name, "/plan/"+name, "/plan/"+name+"/{$}")
	}
	for _, name := range []string{"header", "query", "cookie", "number"} {
		handle("if"+name, "/if/"+name, "/if/"+name+"/{$}")
	}
	for _, name := range []string{"cookie", "query", "header", "auth"} {
		handle("signed"+name, "/signed/"+name, "/signed/"+name+"/{$}")
	}
	handle("ifhost", "/if/host", "/if/host/{$}")
	handle("gone", "/gone", "/gone/{$}")
	handle("anonymous", "/plan/none", "/plan/none/{$}")
	handle("user", "/users/{id}", "/users/{id}/{$}")
	handle("api", "api.example.com/")
	handle("none", "/")
	return mux
}

// serveMux records a request that reached a handler.
func serveMux(c *records, name string, w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // trailers come after the body
	cookies := func(name string) []string {
		var values []string
		for _, cookie := range r.CookiesNamed(name) {
			values = append(values, cookie.Value)
		}
		return ends(values)
	}
	host, _, _ := strings.Cut(r.Host, ":")
	rec := &record{
		Server: "go", Case: r.Header.Get("X-Case"), Ran: []string{name}, Method: r.Method, Path: r.URL.Path, Host: []string{host},
		User: ends(r.Header["X-User"]), Plan: ends(r.Header["X-Plan"]), APIKey: ends(r.Header["X-Api-Key"]),
		Query: ends(r.URL.Query()["user"]), QueryPlan: ends(r.URL.Query()["plan"]), Cookie: cookies("session"), CookiePlan: cookies("plan"),
		Authorization: ends(r.Header["Authorization"]), ID: []string{r.PathValue("id")},
	}
	if strings.HasSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), ".internal.example") {
		rec.Ran = append(rec.Ran, "wild")
	}
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for name, values := range h {
			rec.Forwarding = append(rec.Forwarding, name+": "+strings.Join(slices.Clone(values), ", "))
		}
	}
	c.add(rec, nil)
	_, _ = w.Write([]byte("ok")) // the client may have left
}
