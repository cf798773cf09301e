package config

import (
	"fmt"
	"strings"
	"testing"
)

// Files that are valid, and what they say that will probably not do what their author wants.
func TestUnlikelyIntentionsAreWarnings(t *testing.T) {
	const rule = "rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 5/s}, match: {method: GET}}]\n"
	for text, want := range map[string]string{
		"upstream: http://127.0.0.1:3000\n" + rule: "",
		"upstream: echo\n" + rule:                  "",
		"listen: {proxy: off}\n" + rule:            "",
		"listen: {proxy: off}\nplans: {gold: {a: {rate: 9/s}}}\nplan_from: header:X-Plan\n" + rule: "",
		rule: "x.yaml:1:1: upstream: is missing, so a built-in service answers each request of the proxy with the text of the request; give the URL of a service, upstream: echo to keep the built-in one, or listen: {proxy: off}",
		"upstream: echo\nstore: {redis: {addresses: [127.0.0.1:6379], local: {share: 1/4}}}\n" + rule: "x.yaml:3:46: store.redis.local: is given, and no rule has on_store_error: local; give on_store_error: local to some rules or to the file, or remove it",
		"upstream: echo\non_store_error: deny\n" + rule:                                               "x.yaml:3:1: on_store_error: has no effect with the memory store, which does not fail; remove it, or give store: {redis: {…}}",
		"upstream: echo\n" + strings.Replace(rule, "GET", "[PROPFIND, PURGE, FROB]", 1):               `x.yaml:3:114: rules[0].match.method[2]: "FROB" is not a registered method; the rule matches only clients that send exactly that; give methods such as GET, POST or PUT, if that is not what you mean`,
	} {
		checkWarnings(t, "version: 1\n"+text, want)
	}
}

// Requests at a Unix socket have no client address unless unix is trusted, so a rule that reads it is reported.
func TestSocketWarnings(t *testing.T) {
	const begin, limit = "version: 1\nupstream: echo\nlisten: {proxy: unix:/run/proxy.sock}\n", "limit: {algorithm: token_bucket, rate: 5/s}}]\n"
	const warning = "x.yaml:3:17: listen.proxy: is a Unix socket, whose requests have no client address, and %s reads it; add unix to trusted_proxies if the gateway at the socket writes X-Forwarded-For; otherwise give the rules other keys"
	for text, reader := range map[string]string{
		"rules: [{name: a, key: client_ip, " + limit:                                                        `rule "a"`,
		"rules: [{name: a, key: '{client_ip}/{header:X-A}', " + limit:                                       `rule "a"`,
		"rules: [{name: a, key: global, match: {client_ip: 10.0.0.0/8}, " + limit:                           `rule "a"`,
		"rules: [{name: a, key: global, match: {if: 'in_network(\"10.0.0.0/8\")'}, " + limit:                `rule "a"`,
		"rules: [{name: a, key: global, match: {unless: {client_ip: 10.0.0.0/8}}, " + limit:                 `rule "a"`,
		"rules: [{name: a, key: global, deny: {client_ip: 10.0.0.0/8}, " + limit:                            `rule "a"`,
		"classes: [{name: c, match: {client_ip: 10.0.0.0/8}}]\nrules: [{name: a, key: header:X-A, " + limit: `class "c"`,
		"rules: [{name: a, key: header:X-A, " + limit:                                                       "",
		"trusted_proxies: unix\nrules: [{name: a, key: client_ip, " + limit:                                 "",
	} {
		want := ""
		if reader != "" {
			want = fmt.Sprintf(warning, reader)
		}
		checkWarnings(t, begin+text, want)
	}
}

// A gateway carries out less than the proxy. What it leaves out of a rule is reported.
func TestGatewayWarnings(t *testing.T) {
	const begin = "version: 1\ntrusted_proxies: 127.0.0.1\nlisten: {proxy: off, auth: '127.0.0.1:8082'}\nrules:\n  - name: a\n    key: client_ip\n"
	const limit = "    limit: {algorithm: token_bucket, rate: 5/s}\n"
	const remedy = "; limit such requests at listen.proxy, or accept it"
	for text, want := range map[string]string{
		limit + "    max_wait: 1s\n":                                                  "",
		limit + "    when_limited: {action: mark}\n":                                  "",
		limit + "    when_limited: {action: degrade}\n":                               "",
		limit + "    bandwidth: {down: 1MB/s}\n":                                      "x.yaml:8:5: rules[0].bandwidth: has no effect on requests at listen.auth: bodies do not pass through Sluice" + remedy,
		limit + "    count_status: 401\n":                                             "x.yaml:8:5: rules[0].count_status: has no effect on requests at listen.auth: the response is not known, so each request counts" + remedy,
		limit + "    cost: {source: response_bytes}\n":                                "x.yaml:8:12: rules[0].cost.source: has no effect on requests at listen.auth: the size or response is not known, so each request costs the estimate" + remedy,
		limit + "    match: {if: 'request_bytes > 1000'}\n":                           "x.yaml:8:17: rules[0].match.if[0]: uses request_bytes, and a request at listen.auth may be reported without its length, which counts as small and as large; have the gateway report Content-Length, or limit such requests at listen.proxy, or accept it",
		"    limit: {algorithm: concurrency, max: 5}\n":                               "x.yaml:7:5: rules[0].limit: has little effect on requests at listen.auth: their end is not known, so each lease is released after the decision" + remedy,
		limit + "    when_limited: {action: degrade, upstream: 'http://a.example'}\n": "x.yaml:8:5: rules[0].when_limited: degrades no requests at listen.auth: they pass as they are, with the header Sluice-Degraded or request_header in the answer to the gateway; have the gateway read the header, or limit such requests at listen.proxy, or accept it",
	} {
		checkWarnings(t, begin+text, want)
		checkWarnings(t, strings.Replace(begin+text, ", auth: '127.0.0.1:8082'", "", 1), "")
	}
	// Envoy's external authorization can answer requests.
	envoy := strings.NewReplacer("trusted_proxies: 127.0.0.1\n", "", "auth:", "grpc:").Replace(begin)
	checkWarnings(t, envoy+limit+"    bandwidth: {down: 1MB/s}\n", "x.yaml:7:5: rules[0].bandwidth: has no effect on requests at listen.grpc: bodies do not pass through Sluice"+remedy)
	checkWarnings(t, envoy+limit+"    when_limited: {action: degrade, status: 302, header: {Location: '/wait'}}\n", "")
	checkWarnings(t, envoy+limit+"    when_limited: {action: degrade, upstream: 'http://a.example'}\n", "x.yaml:7:5: rules[0].when_limited: degrades no requests at listen.grpc: they pass as they are, with the header Sluice-Degraded or request_header in the answer to the gateway; have the gateway read the header, or limit such requests at listen.proxy, or accept it")
	// HAProxy waits for an answer no longer than its configuration says.
	haproxy := strings.Replace(begin, "auth:", "spoe:", 1)
	const waits = ": lets requests wait, and HAProxy at listen.spoe waits only for its timeout processing, then decides without an answer; make that timeout longer than the longest wait"
	for text, want := range map[string]string{
		limit:                                    "",
		limit + "    max_wait: 1s\n":             "x.yaml:8:5: rules[0].max_wait" + waits,
		limit + "    bandwidth: {down: 1MB/s}\n": "x.yaml:8:5: rules[0].bandwidth: has no effect on requests at listen.spoe: bodies do not pass through Sluice" + remedy,
		"    limit: {algorithm: leaky_bucket, rate: 5/s}\n":              "",
		"    limit: {algorithm: leaky_bucket, rate: 5/s, queue: 9}\n":    "x.yaml:7:5: rules[0].limit" + waits,
		"    limits: [{algorithm: leaky_bucket, rate: 5/s, queue: 9}]\n": "x.yaml:7:14: rules[0].limits[0]" + waits,
	} {
		checkWarnings(t, haproxy+text, want)
	}
	if _, err := Parse("x.yaml", []byte(begin+limit+"upstream: {url: echo, method_override: true}\n")); err != nil {
		t.Error(err)
	}
}

// Clients of Redis cannot hold leases.
func TestRedisClientWarnings(t *testing.T) {
	const begin = "version: 1\nlisten: {proxy: off, resp: '127.0.0.1:6380'}\nrules:\n  - name: a\n    key: client_ip\n"
	const leases = ": is a concurrency limit, and SLUICE.CHECK at listen.resp releases each lease after the decision; have programs call /v1/acquire of the decision API for this rule, or accept it"
	for text, want := range map[string]string{
		"    limit: {algorithm: token_bucket, rate: 5/s}\n":                                               "",
		"    limit: {algorithm: concurrency, max: 5}\n":                                                   "x.yaml:6:5: rules[0].limit" + leases,
		"    limits: [{algorithm: token_bucket, rate: 5/s}, {algorithm: concurrency, max: 5, name: b}]\n": "x.yaml:6:52: rules[0].limits[1]" + leases,
	} {
		checkWarnings(t, begin+text, want)
		checkWarnings(t, strings.Replace(begin, "resp: '127.0.0.1:6380'", "resp: off", 1)+text, "")
	}
}
