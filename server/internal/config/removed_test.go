package config

import (
	"fmt"
	"strings"
	"testing"
)

// A header that no service gets counts as missing. A rule that reads one is reported, unless trusted proxies send it.
func TestRemovedHeaderWarnings(t *testing.T) {
	const limit = "limit: {algorithm: token_bucket, rate: 5/s}}]\n"
	const proxied = "reads the header %s, which the proxy removes or replaces, so it counts as missing: only trusted proxies may send it, and there are none; list the proxies that set it under trusted_proxies, or use client_ip or another header"
	const hop = "reads the header %s, which is for one connection only and reaches no service, so it counts as missing; use another header"
	for _, c := range []struct{ text, where, problem, header string }{
		{"rules: [{name: a, key: header:X-Real-IP, " + limit, "3:19: rules[0].key", proxied, "X-Real-IP"},
		{"rules: [{name: a, key: '{client_ip}/{header:CF-Connecting-IP}', " + limit, "3:19: rules[0].key", proxied, "CF-Connecting-IP"},
		{"rules: [{name: a, key: global, match: {header: {Forwarded: x}}, " + limit, "3:32: rules[0].match", proxied, "Forwarded"},
		{"rules: [{name: a, key: global, match: {unless: {header: {x-forwarded-for: '*'}}}, " + limit, "3:32: rules[0].match", proxied, "x-forwarded-for"},
		{"rules: [{name: a, key: global, match: {if: 'header(\"X-Client-IP\") == \"a\"'}, " + limit, "3:32: rules[0].match", proxied, "X-Client-Ip"},
		{"rules: [{name: a, key: global, cost: {header: X-Forwarded-Cost, max: 3}, " + limit, "3:32: rules[0].cost", proxied, "X-Forwarded-Cost"},
		{"classes: [{name: c, match: {header: {X-Forwarded-For: 10.0.0.1}}, bypass: true}]\nrules: [{name: a, key: header:X-A, " + limit, "3:21: classes[0].match", proxied, "X-Forwarded-For"},
		{"rules: [{name: a, key: header:TE, " + limit, "3:19: rules[0].key", hop, "TE"},
		{"rules: [{name: a, key: header:Keep-Alive, " + limit, "3:19: rules[0].key", hop, "Keep-Alive"},
		{"rules: [{name: a, key: header:X-A, " + limit, "", "", ""},
		{"rules: [{name: a, key: global, match: {if: 'header(\"Host\") == \"a\"'}, " + limit, "", "", ""},
	} {
		want := ""
		if c.where != "" {
			want = "x.yaml:" + c.where + ": " + fmt.Sprintf(c.problem, c.header)
		}
		checkWarnings(t, "version: 1\nupstream: echo\n"+c.text, want)
		if c.problem == proxied {
			checkWarnings(t, "version: 1\nupstream: echo\n"+c.text+"trusted_proxies: 192.0.2.1\n", "")
		}
	}
}

// A ban on a value that any client can send is reported, and one on a part of the path is a mistake.
func TestBansOfOthers(t *testing.T) {
	const begin, end = "version: 1\nupstream: echo\nrules: [{name: a, match: {path: '/a/{id}'}, key: ", ", limit: {algorithm: token_bucket, rate: 5/s}, ban: {after: 5, for: 1m%s}}]\n"
	const warning = ": bans by %s, which any client can send: one client can have another one banned, or a resource for all; add client_ip or a claim to the key, or set shared: true if the value is a secret or the ban is meant so"
	for key, chosen := range map[string]string{
		"query:id":                     "query:id",
		"header:X-User":                "header:X-User",
		"'{query:id}/{header:X-User}'": "query:id and header:X-User",
		"'{query:id}/{client_ip}'":     "",
		"query:api_key":                "",
		"header:X-Api-Key":             "",
		"header:Authorization":         "",
		"cookie:id":                    "",
		"claim:sub":                    "",
		"client_ip":                    "",
	} {
		text := begin + key + fmt.Sprintf(end, "")
		want := ""
		if chosen != "" {
			want = fmt.Sprintf("x.yaml:3:%d: rules[0].ban"+warning, strings.Index(strings.Split(text, "\n")[2], "ban:")+1, chosen)
			checkWarnings(t, begin+key+fmt.Sprintf(end, ", shared: true"), "")
		}
		checkWarnings(t, text, want)
	}
	for _, key := range []string{"param:id", "[param:id, path]", "'{param:id}/{host}'"} {
		if _, err := Parse("x.yaml", []byte(begin+key+fmt.Sprintf(end, ""))); err == nil || !strings.Contains(err.Error(), "bans all clients at once") {
			t.Errorf("key %s: the error is %v, want one about a ban of all clients", key, err)
		}
		if _, err := Parse("x.yaml", []byte(begin+key+fmt.Sprintf(end, ", shared: true"))); err != nil {
			t.Errorf("%s, shared: %v", key, err)
		}
	}
}
