package forwardauth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// statusHeader holds the status of a denial that is answered with another status.
const statusHeader = "Sluice-Status"

// problem is a problem document (RFC 9457): why a request of a gateway gets no decision, and the remedy.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
}

// unusable returns the problem of a request that does not describe a request of a client.
func unusable(detail, remedy string) *problem {
	return &problem{Title: "Unusable request of a gateway", Status: http.StatusBadRequest, Detail: detail, Remedy: remedy}
}

// The problems of requests of gateways.
var (
	errForeign = &problem{
		Title: "Not a trusted proxy", Status: http.StatusForbidden, Detail: "This listener answers only the gateways in trusted_proxies.",
		Remedy: "add the address from which the gateway calls to trusted_proxies, or unix if it calls through a Unix socket",
	}
	errPath = &problem{
		Title: "No such page", Status: http.StatusNotFound, Detail: "The one page of this listener is " + Path + ".", Remedy: "send GET " + Path,
	}
	errMethod = &problem{
		Title: "Wrong method", Status: http.StatusMethodNotAllowed, Detail: Path + " takes GET only.",
		Remedy: "send GET, and the method of the client in X-Original-Method or X-Forwarded-Method",
	}
	errBody = unusable("The request has a body, or the length of one.",
		`do not pass the client's body on; for nginx: proxy_pass_request_body off; proxy_set_header Content-Length "";`)
	errNoSet = unusable("The request describes no request of a client.",
		"send X-Original-URI, X-Original-Method, X-Original-Host and X-Real-IP, as for nginx, or X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-Host and X-Forwarded-For, as Traefik and Caddy do")
	errTwoSets = unusable("The X-Original and X-Forwarded headers describe different requests.",
		"if the gateway sends one set, have it remove the other set that clients send")
	errNoAddress    = unusable("The address of the client is missing.", "for nginx: proxy_set_header X-Real-IP $remote_addr; and proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
	errTwoAddresses = unusable("X-Real-IP is not the last address of X-Forwarded-For.",
		"send the address of the gateway's peer in both; for nginx: proxy_set_header X-Real-IP $remote_addr; and proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
	errAddress    = unusable("X-Real-IP, or the end of X-Forwarded-For, is not an address.", "send the address of the gateway's peer there")
	errParameters = unusable("The parameters of "+Path+" are unknown.", "the only one is deny_status=403; leave it out for the status of the denial itself")
)

// missing returns the problem of an incomplete set of headers.
func missing(name, prefix string) *problem {
	return unusable(shown(name)+" is missing.", "have the gateway send all "+prefix+" headers, so that it overwrites what clients send")
}

// repeated returns the problem of a header with several lines.
func repeated(name string) *problem {
	return unusable(shown(name)+" was sent several times.", "have the gateway overwrite what clients send")
}

// shown returns the name of a header as gateways spell it.
func shown(name string) string {
	switch name {
	case originalURI:
		return "X-Original-URI"
	case realIP:
		return "X-Real-IP"
	}
	return name
}

// refuse answers a request of a gateway that gets no decision.
func (h *Handler) refuse(w http.ResponseWriter, p *problem) {
	h.decider.Unusable(p.Detail)
	text, err := json.Marshal(p)
	if err != nil {
		text = nil // these values are always valid
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the gateway may be gone
}

// denying returns the writer of the answer for the parameters of a request.
func denying(w http.ResponseWriter, query string) (http.ResponseWriter, *problem) {
	switch query {
	case "":
		return w, nil
	case "deny_status=403":
		return &deniedWriter{w, http.StatusForbidden}, nil
	}
	values, err := url.ParseQuery(query)
	if err == nil && len(values) == 1 && len(values["deny_status"]) == 1 {
		switch values.Get("deny_status") {
		case "403":
			return &deniedWriter{w, http.StatusForbidden}, nil
		case "429", "":
			return w, nil
		}
	}
	return w, errParameters
}

// deniedWriter writes all denials with one status, and their own status into a header. nginx answers a request with
// 500 if a denial is neither 401 nor 403.
type deniedWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader writes the status.
func (w *deniedWriter) WriteHeader(status int) {
	if status >= 400 {
		w.Header()[statusHeader] = []string{strconv.Itoa(status)}
		status = w.status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer for http.ResponseController.
func (w *deniedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// withoutBody answers before the body has come, and ends the connection. The body may never come: a gateway that passes
// on the length, but not the body, would wait for an answer until the connection times out.
func withoutBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	c := http.NewResponseController(w)
	_ = c.EnableFullDuplex()               // HTTP/2 needs nothing
	_ = c.SetReadDeadline(time.Unix(1, 0)) // nor does a writer of tests
}
