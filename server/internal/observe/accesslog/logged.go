package accesslog

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// logged is a decision, as a line shows it.
type logged struct {
	at      time.Time // of the decision, before a wait
	edge    string
	request *http.Request // nil at an edge that has none
	client  netip.Addr
	verdict *policy.Verdict
	limit   string
	key     string // the fingerprint
	cost    int64
	took    time.Duration
}

// decidedAt returns when a decision was made that ended at a time: when it charged a limit, if it has. Other decisions
// may have been made since then, because a busy machine interrupts the program.
func decidedAt(v *policy.Verdict, end time.Time, took time.Duration) time.Time {
	began := end.Add(-took).UnixMicro() // the stores have microseconds
	for i := range v.Results {
		if at := v.Results[i].Decision.Receipt.At; at >= began && at < end.UnixMicro() {
			return time.UnixMicro(at)
		}
	}
	return end
}

// tightest returns the result of the tightest limit, nil if no limit applies.
func (x *logged) tightest() *policy.LimitResult {
	v := x.verdict
	for i := range v.Results {
		if m := &v.Results[i]; m.Role == policy.RoleEnforced && m.Request.Limit == v.TightestLimit && m.Request.Limit != nil {
			return m
		}
	}
	return nil
}

// rule returns the name of the rule that decided, empty for none.
func (x *logged) rule() string {
	switch v := x.verdict; {
	case v.Rule != nil:
		return v.Rule.Name
	case v.Degrade != nil:
		return v.Degrade.Name
	case v.Mark != nil:
		return v.Mark.Name
	default:
		return ""
	}
}

// status returns the status of an answer that the decision makes: a refusal, or a degraded request's own answer. For a
// request that is passed on, known is false: the response of the service comes later.
func (x *logged) status() (status int, known bool) {
	if _, found := x.grpcStatus(); found {
		return http.StatusOK, true
	}
	switch v := x.verdict; {
	case !v.Allowed():
		return denial.Status(v), true
	case v.Degrade != nil && v.Degrade.WhenLimited.Answers():
		return cmp.Or(v.Degrade.WhenLimited.Status, http.StatusOK), true
	default:
		return http.StatusOK, false
	}
}

// proxy is the edge whose answers go to the clients.
const proxy = "proxy"

// grpcStatus returns the status of gRPC in the answer to a call that the proxy refuses. Other edges answer programs, which
// get the status of HTTP.
func (x *logged) grpcStatus() (code int, found bool) {
	if x.edge != proxy || x.verdict.Allowed() {
		return 0, false
	}
	return denial.GRPCStatus(x.request, x.verdict)
}

// appendJSON appends the decision as a line of JSON.
func (x *logged) appendJSON(b []byte) []byte {
	v := x.verdict
	b = append(b, `{"time":"`...)
	b = x.at.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
	b = append(b, `","edge":"`...)
	b = append(b, x.edge...)
	b = append(b, '"')
	if r := x.request; r != nil {
		if x.client.IsValid() {
			b = append(b, `,"client_ip":"`...)
			b = append(x.client.AppendTo(b), '"')
		}
		b = appendText(b, "method", r.Method)
		b = appendText(b, "host", r.Host)
		b = appendText(b, "path", r.URL.EscapedPath())
	}
	b = append(b, `,"action":"`...)
	b = append(b, v.Action.String()...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, v.Allowed())
	if status, known := x.status(); known && x.request != nil {
		b = appendNumber(b, "status", int64(status))
	}
	if code, found := x.grpcStatus(); found {
		b = appendNumber(b, "grpc_status", int64(code))
	}
	if reason := v.Reason.String(); reason != "" {
		b = appendText(b, "reason", reason)
	}
	if rule := x.rule(); rule != "" {
		b = appendText(b, "rule", rule)
	}
	if x.limit != "" {
		b = appendText(b, "limit", x.limit)
		b = appendText(b, "key", x.key)
		b = appendNumber(b, "cost", x.cost)
		if v.Known() {
			b = appendNumber(b, "remaining", v.Tightest.Remaining)
		}
	}
	if wait := max(v.Delay, v.Waited); wait > 0 {
		b = appendNumber(b, "delay_ms", milliseconds(wait))
	}
	if wait := v.RetryAfter(); !v.Allowed() && wait > 0 {
		b = appendNumber(b, "retry_after_ms", milliseconds(wait))
	}
	if v.PaidAhead() {
		b = append(b, `,"ahead":true`...)
	}
	if v.FellBack() {
		b = append(b, `,"degraded":true`...)
	}
	b = appendNumber(b, "duration_us", x.took.Microseconds())
	return append(b, '}', '\n')
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// appendCombined appends the decision in the combined format: client, time, request line, status, size, referrer and user
// agent. The action, the rule, the remaining units, the wait and the duration follow, and for a refused call of gRPC its
// status.
func (x *logged) appendCombined(b []byte) []byte {
	client, line, referrer, agent := "-", "-", "-", "-"
	if r := x.request; r != nil {
		if x.client.IsValid() {
			client = x.client.String()
		}
		line = r.Method + " " + r.URL.EscapedPath() + " " + r.Proto
		referrer, agent = or(r.Header.Get("Referer")), or(r.Header.Get("User-Agent"))
	}
	v := x.verdict
	b = append(b, client...)
	b = append(b, " - - ["...)
	b = x.at.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, "] "...)
	b = appendQuoted(b, line)
	b = append(b, ' ')
	status, _ := x.status()
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, " - "...)
	b = appendQuoted(b, withoutQuery(referrer))
	b = append(b, ' ')
	b = appendQuoted(b, agent)
	b = append(b, " action="...)
	b = append(b, v.Action.String()...)
	b = append(b, " rule="...)
	b = append(b, or(x.rule())...)
	b = append(b, " remaining="...)
	if x.limit != "" && v.Known() {
		b = strconv.AppendInt(b, v.Tightest.Remaining, 10)
	} else {
		b = append(b, '-')
	}
	b = append(b, " wait="...)
	b = strconv.AppendFloat(b, max(v.Delay, v.Waited, v.RetryAfter()).Seconds(), 'f', 3, 64)
	b = append(b, " duration="...)
	b = strconv.AppendFloat(b, x.took.Seconds(), 'f', 6, 64)
	if code, found := x.grpcStatus(); found {
		b = append(b, " grpc="...)
		b = strconv.AppendInt(b, int64(code), 10)
	}
	return append(b, '\n')
}

// or returns a text, or a dash for an empty one.
func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// mostText bounds a text that a client chose.
const mostText = 1024

// appendText appends a member with a text.
func appendText(b []byte, name, text string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	text = text[:min(len(text), mostText)]
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil {
				quoted = []byte(`""`) // a string always has a form in JSON
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

// appendNumber appends a member with a number.
func appendNumber(b []byte, name string, n int64) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return strconv.AppendInt(b, n, 10)
}

// appendQuoted appends a text in quotes. As web servers do, it writes bytes that could end the quotes or the line as
// \xHH.
func appendQuoted(b []byte, text string) []byte {
	const digits = "0123456789ABCDEF"
	b = append(b, '"')
	for i := range min(len(text), mostText) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b = append(b, '\\', 'x', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// withoutQuery removes the query of a URL, which may hold a secret.
func withoutQuery(url string) string {
	for i := range len(url) {
		if url[i] == '?' || url[i] == '#' {
			return url[:i]
		}
	}
	return url
}
