package protocols

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// doors is a server with all doors over one Redis.
type doors struct {
	testing.TB
	*process.Sluice
	envoy *envoy
	redis *redis.Client
}

// fallbacks are the settings of on_store_error.
var fallbacks = []string{"local", "allow", "deny"}

// doorNames are the doors that take has.
var doorNames = []string{"proxy", "auth", "check", "throttle", "sluicecheck", "rls", "authz"}

func openDoors(tb testing.TB, store string) *doors {
	tb.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tb.Cleanup(service.Close)
	var rules strings.Builder
	for _, door := range doorNames {
		for _, fallback := range fallbacks {
			match, key := "match: {path: /"+door+"/"+fallback+"}", "key: client_ip, "
			if door == "rls" {
				match, key = "descriptor: {domain: edge, entries: ["+fallback+"]}", ""
			}
			fmt.Fprintf(&rules, "  - {name: %s-%s, %s, %slimit: {algorithm: fixed_window, rate: 10/d}, on_store_error: %s}\n", door, fallback, match, key, fallback)
		}
	}
	s := serveFile(tb, writeConfig(tb, fmt.Sprintf(`upstream: %s
trusted_proxies: [127.0.0.1]
api: {open: true}
listen: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0', auth: '127.0.0.1:0', resp: '127.0.0.1:0', grpc: '127.0.0.1:0'}
store: {redis: {%s, local: {share: 1/2}}}
rules:
%s`, service.URL, store, rules.String())), 6)
	d := &doors{TB: tb, Sluice: s, envoy: dialEnvoy(tb, s), redis: redis.NewClient(&redis.Options{Addr: s.Address("resp"), Protocol: 3, MaxRetries: -1})}
	tb.Cleanup(func() { d.redis.Close() })
	return d
}

// said is what an answer contains about a limit.
type said struct {
	allowed   bool
	remaining string // empty if it is left out
	others    string // other counts and times that are not known while Redis does not answer
	marked    bool   // the answer reports that a fallback has decided
	wait      bool   // the answer reports when to come back
}

// get returns the status, the headers and the body of an answer.
func (d *doors) get(url string, header ...string) (status int, h http.Header, body string) {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		d.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// byHeaders reads the headers of a profile.
func byHeaders(status int, h http.Header) said {
	a := said{allowed: status == http.StatusOK, wait: h.Get("Retry-After") != ""}
	if limit := h.Get("Ratelimit"); limit != "" {
		_, rest, _ := strings.Cut(limit, ";r=")
		a.remaining, _, _ = strings.Cut(rest, ";")
		a.others = limit
	}
	return a
}

// take takes one unit by a rule, through a door.
func (d *doors) take(door, fallback string) said {
	d.Helper()
	ctx, path := d.Context(), "/"+door+"/"+fallback
	switch door {
	case "proxy":
		status, h, _ := d.get(d.URLs["proxy"] + path)
		if h.Get("Ratelimit-Policy") == "" {
			d.Errorf("%s: the limit itself is known, and not named: %v", path, h)
		}
		return byHeaders(status, h)
	case "auth":
		status, h, _ := d.get(d.URLs["auth"]+"/auth", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", path, "X-Forwarded-Host", "example.com", "X-Forwarded-For", "192.0.2.1")
		return byHeaders(status, h)
	case "check":
		resp, err := http.Post(d.URLs["api"]+"/v1/check", "application/json", strings.NewReader(`{"method": "GET", "path": "`+path+`", "client_ip": "192.0.2.1"}`)) //nolint:noctx // the server is here
		if err != nil {
			d.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			d.Fatal(err)
		}
		var v struct {
			Allowed, Degraded bool
			Remaining         *int64
			ResetAfterMS      *int64 `json:"reset_after_ms"`
			RetryAfterMS      *int64 `json:"retry_after_ms"`
			Capacity          int64
			Limits            []struct {
				Remaining, ResetAfterMS *int64
				Capacity                int64
			}
			Explanation string
		}
		if err := json.Unmarshal(text, &v); err != nil || len(v.Limits) != 1 || v.Capacity != 10 || v.Limits[0].Capacity != 10 {
			d.Fatalf("want a decision about one limit of 10, got %v, %s", err, text)
		}
		a := said{allowed: v.Allowed, marked: v.Degraded, wait: v.RetryAfterMS != nil}
		if v.Remaining != nil {
			a.remaining = fmt.Sprint(*v.Remaining)
		}
		if v.ResetAfterMS != nil || v.Limits[0].Remaining != nil || v.Limits[0].ResetAfterMS != nil || strings.Contains(v.Explanation, "remain") {
			a.others = string(text)
		}
		return a
	case "throttle":
		// The fallback of CL.THROTTLE is the same for all keys: local.
		v, err := d.redis.Do(ctx, "CL.THROTTLE", fallback, 9, 10, 86400).Int64Slice()
		if err != nil || v[1] != 10 {
			d.Fatal(v, err)
		}
		a := said{allowed: v[0] == 0, remaining: fmt.Sprint(v[2]), wait: v[3] > 0}
		if v[2] == -1 {
			a.remaining, a.marked = "", true
		}
		if v[4] != -1 {
			a.others = fmt.Sprint(v)
		}
		return a
	case "sluicecheck":
		v, err := d.redis.Do(ctx, "SLUICE.CHECK", door+"-"+fallback, "192.0.2.1").Result()
		m, ok := v.(map[any]any)
		if err != nil || !ok || m["capacity"] != int64(10) {
			d.Fatal(v, err)
		}
		a := said{allowed: m["allowed"] == int64(1), marked: m["degraded"] == int64(1), wait: m["retry_after_ms"] != int64(-1)}
		if m["remaining"] != nil {
			a.remaining = fmt.Sprint(m["remaining"])
		}
		if m["reset_after_ms"] != nil {
			a.others = fmt.Sprint(v)
		}
		return a
	case "rls":
		v := d.envoy.answer(call(one(fallback, "x")))
		status := v.GetStatuses()[0]
		h := http.Header{}
		for _, header := range v.GetResponseHeadersToAdd() {
			h.Set(header.GetKey(), header.GetValue())
		}
		code := http.StatusOK
		if v.GetOverallCode() != ratelimitpb.RateLimitResponse_OK {
			code = http.StatusTooManyRequests
		}
		a := byHeaders(code, h)
		a.marked = v.GetDynamicMetadata().GetFields()["degraded"].GetBoolValue()
		if status.GetCurrentLimit() != nil || status.GetLimitRemaining() != 0 || status.GetDurationUntilReset() != nil ||
			strings.Contains(v.GetDynamicMetadata().GetFields()["explanation"].GetStringValue(), "remain") {
			a.others = v.String()
			a.remaining = fmt.Sprint(status.GetLimitRemaining())
		}
		return a
	default:
		v, err := authpb.NewAuthorizationClient(d.envoy.conn).Check(ctx, &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
			Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{
				SocketAddress: &corepb.SocketAddress{Address: "192.0.2.1", PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 1234}},
			}}},
			Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
				Method: "GET", Path: path, Host: "example.com", Scheme: "http", Protocol: "HTTP/1.1",
				Headers: map[string]string{":method": "GET", ":path": path, ":authority": "example.com", "x-forwarded-for": "192.0.2.1"},
			}},
		}})
		if err != nil {
			d.Fatal(err)
		}
		code, headers := http.StatusOK, v.GetOkResponse().GetResponseHeadersToAdd()
		if denied := v.GetDeniedResponse(); denied != nil {
			code, headers = int(denied.GetStatus().GetCode()), denied.GetHeaders()
		}
		h := http.Header{}
		for _, header := range headers {
			h.Set(header.GetHeader().GetKey(), header.GetHeader().GetValue())
		}
		a := byHeaders(code, h)
		a.marked = v.GetDynamicMetadata().GetFields()["degraded"].GetBoolValue()
		return a
	}
}

// unanswered returns how many calls of the store came too late, or were not made because others had failed.
func (d *doors) unanswered() (sum int) {
	d.Helper()
	_, _, text := d.get(d.URLs["admin"] + "/metrics")
	for _, outcome := range []string{"late", "failed", "refused"} {
		_, rest, _ := strings.Cut(text, `sluice_store_calls_total{outcome="`+outcome+`"} `)
		var n int
		if _, err := fmt.Sscan(rest, &n); err != nil {
			d.Fatal(err)
		}
		sum += n
	}
	return sum
}

// known makes sure that a door reports the true number.
func (d *doors) known(door, fallback, remaining string) {
	d.Helper()
	if got := d.take(door, fallback); !got.allowed || got.remaining != remaining || got.marked || got.others == "" && door != "throttle" {
		d.Errorf("%s, %s: %+v, want %s to remain", door, fallback, got, remaining)
	}
}

// unknown makes sure that a door leaves out what is not known.
func (d *doors) unknown(door, fallback string) {
	d.Helper()
	got := d.take(door, fallback)
	allowed := fallback != "deny" || door == "throttle"
	if got.allowed != allowed || got.remaining != "" || got.others != "" || got.wait == allowed {
		d.Errorf("%s, %s, while Redis does not answer: %+v", door, fallback, got)
	}
	if got.marked == (door == "proxy" || door == "auth") { // no header is for a mark
		d.Errorf("%s, %s: marked is %t", door, fallback, got.marked)
	}
}

// While Redis is stopped, no door invents numbers.
func TestDoorsInventNoNumbers(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	d := openDoors(t, fmt.Sprintf("addresses: ['%s'], deadline: 2s", r.Addr()))
	for _, door := range doorNames {
		for _, fallback := range fallbacks {
			d.known(door, fallback, "9")
			d.known(door, fallback, "8")
		}
	}
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "an open breaker", func() bool {
		began := time.Now()
		d.take("check", "allow")
		return time.Since(began) < time.Second
	})
	for range 2 {
		for _, door := range doorNames {
			for _, fallback := range fallbacks {
				d.unknown(door, fallback)
			}
		}
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "a decision of Redis", func() bool { return !d.take("check", "allow").marked })
	for _, door := range doorNames {
		d.known(door, "deny", "7") // fallbacks have charged nothing
	}
}

// A single call that is too late is answered without numbers, and counted.
func TestLateCallsInventNoNumbers(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	d := openDoors(t, fmt.Sprintf("addresses: ['%s'], deadline: 500ms", r.Addr()))
	for _, door := range doorNames {
		d.known(door, "allow", "9")
		before := d.unanswered()
		if err := r.Pause(); err != nil {
			t.Fatal(err)
		}
		d.unknown(door, "allow")
		if err := r.Resume(); err != nil {
			t.Fatal(err)
		}
		if after := d.unanswered(); after <= before {
			t.Errorf("%s: %d calls without an answer, then %d", door, before, after)
		}
		process.Eventually(t, "a decision of Redis", func() bool { return !d.take("check", "local").marked })
	}
}
