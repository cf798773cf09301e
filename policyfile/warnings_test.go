package policyfile

import (
	"strings"
	"testing"
)

// Files that are valid, and what they say that will probably not do what their author wants.
func TestWarnings(t *testing.T) {
	const rule = "rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 5/s}, match: {method: GET}}]\n"
	for text, want := range map[string]string{
		"upstream: http://127.0.0.1:3000\n" + rule: "",
		"upstream: echo\n" + rule:                  "",
		"listen: {proxy: off}\n" + rule:            "",
		rule:                                       "x.yaml:1:1: upstream: is missing, so a built-in service answers each request of the proxy with the text of the request; give the URL of a service, upstream: echo to keep the built-in one, or listen: {proxy: off}",
		"upstream: echo\nstore: {redis: {addresses: [127.0.0.1:6379], local: {share: 1/4}}}\n" + rule: "x.yaml:3:46: store.redis.local: is given, and no rule has on_store_error: local; give on_store_error: local to some rules or to the file, or remove it",
		"upstream: echo\non_store_error: deny\n" + rule:                                               "x.yaml:3:1: on_store_error: has no effect with the memory store, which does not fail; remove it, or give store: {redis: {…}}",
		"upstream: echo\n" + strings.Replace(rule, "GET", "[PROPFIND, PURGE, FROB]", 1):               `x.yaml:3:114: rules[0].match.method[2]: "FROB" is not a registered method; the rule matches only clients that send exactly that; give methods such as GET, POST or PUT, if that is not what you mean`,
	} {
		checkWarnings(t, "version: 1\n"+text, want)
	}
}
