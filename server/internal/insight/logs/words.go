package logs

import (
	"regexp"
	"strings"
)

// words is what the fields of a server's logs are called. In a template, variable finds them: its two groups make a name.
type words struct {
	variable *regexp.Regexp
	kinds    map[string]kind
	named    []affix
	set      []Setting                // further names
	hidden   []string                 // members of JSON that the server replaces by a constant
	rewrite  func(text string) string // of a template
	ends     bool                     // times are when requests ended
	escapes  byte                     // see state
	requests byte
}

// affix says which fields have a named part of the request: the name is between two texts.
type affix struct {
	before, after string
	source        string
	folded        bool // the name is in lower case with underscores
}

// The words of each server. Sizes that include headers are not among them.
var (
	nginxWords = words{
		variable: regexp.MustCompile(`\$\{?()([A-Za-z0-9_]+)\}?`),
		kinds: map[string]kind{
			"msec": fine, "time_local": stamp, "time_iso8601": stamp, "request_time": seconds, "remote_addr": client, "realip_remote_addr": peer,
			"request": request, "request_uri": target, "uri": path, "document_uri": path, "args": query, "query_string": query,
			"request_method": method, "host": host, "http_host": host, "server_name": hostIfNone, "status": status, "body_bytes_sent": sent, "content_length": received,
			"limit_req_status": limited,
		},
		named:   []affix{{before: "http_", source: "header", folded: true}, {before: "cookie_", source: "cookie"}, {before: "arg_", source: "query"}, {before: "sent_http_", source: "response", folded: true}, {before: "upstream_http_", source: "response", folded: true}},
		ends:    true,
		escapes: '\\', requests: '\\',
	}
	apacheWords = words{
		variable: regexp.MustCompile(`%[<>!,\d]*(\{[^}]*\})?[<>]?(\^t[io]|[a-zA-Z%])`),
		kinds: map[string]kind{
			"h": peer, "a": client, "{c}a": peer, "r": request, "s": status, "b": sent, "B": sent, "m": method, "U": path,
			"q": query, "v": hostIfNone, "V": hostIfNone, "{Host}i": host,
			"t": stamp, "{sec}t": stamp, "{begin:sec}t": stamp, "{msec}t": fine, "{begin:msec}t": fine, "{usec}t": fine, "{begin:usec}t": fine,
			"D": usecs, "{us}T": usecs, "{ms}T": millis, "{s}T": seconds, "T": seconds,
		},
		named:   []affix{{before: "{", after: "}i", source: "header"}, {before: "{", after: "}C", source: "cookie"}, {before: "{", after: "}o", source: "response"}},
		escapes: '\\', requests: '\\',
	}
	caddyWords = words{
		kinds: map[string]kind{
			"ts": fine, "duration": seconds, "request.client_ip": client, "request.remote_ip": peer, "request.method": method, "request.uri": target,
			"request.host": host, "status": status, "size": sent, "bytes_read": received,
		},
		named: []affix{{before: "request.headers.", source: "header"}, {before: "resp_headers.", source: "response"}},
		hidden: []string{
			"request.headers.Authorization", "request.headers.Proxy-Authorization", "request.headers.Cookie",
		},
		ends: true,
	}
	traefikWords = words{
		variable: regexp.MustCompile(`\$\{?()([A-Za-z_-]+)\}?`),
		kinds: map[string]kind{
			"StartUTC": fine, "Start": stamp, "Duration": nanos, "DurationMs": millis, "ClientHost": client, "RequestMethod": method, "RequestPath": target,
			"Request": request, "RequestHost": host, "DownstreamStatus": status, "DownstreamContentSize": sent,
			"RequestContentSize": received,
		},
		named:   []affix{{before: "request_", source: "header"}, {before: "downstream_", source: "response"}},
		escapes: '\\', requests: '\\',
	}
	envoyWords = words{
		variable: regexp.MustCompile(`%()([A-Z_]+(?:\([^)]*\))?)(?::\d+)?%`),
		kinds: map[string]kind{
			"START_TIME": fine, "START_TIME(%s.%3f)": fine, "START_TIME(%s.%6f)": fine, "DURATION": millis,
			"REQ(:METHOD)": method, "REQ(:PATH)": target, "REQ(X-ENVOY-ORIGINAL-PATH?:PATH)": target, "REQ(:AUTHORITY)": host,
			"RESPONSE_CODE": status, "BYTES_SENT": sent, "BYTES_RECEIVED": received,
			"DOWNSTREAM_REMOTE_ADDRESS": client, "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": client,
			"DOWNSTREAM_DIRECT_REMOTE_ADDRESS": peer, "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT": peer,
		},
		named: []affix{{before: "REQ(", after: ")", source: "header"}, {before: "RESP(", after: ")", source: "response"}},
	}
	// These are members that Envoy Gateway and Istio write.
	envoyMembers = words{
		kinds: map[string]kind{
			"start_time": fine, "duration": millis, "method": method, "x-envoy-origin-path": target, "path": target, ":authority": host,
			"authority": host, "response_code": status, "bytes_sent": sent, "bytes_received": received, "downstream_remote_address": client,
		},
		set: []Setting{
			{Name{"header", "User-Agent"}, "user-agent"},
			{Name{"header", "User-Agent"}, "user_agent"},
			{Name{"header", "X-Forwarded-For"}, "x-forwarded-for"},
			{Name{"header", "X-Forwarded-For"}, "x_forwarded_for"},
		},
	}
	haproxyWords = words{
		variable: regexp.MustCompile(`%(?:\{[^}]*\})?()(\[[^\]]*\]|[a-zA-Z]+)`),
		kinds: map[string]kind{
			"tr": fine, "trl": fine, "Ts": stamp, "Ta": millis, "ci": client, "cicp": clientPort, "r": request, "HM": method, "HU": target, "HPO": path, "HP": path,
			"HQ": query, "ST": status, "[var(txn.header_host)]": host,
		},
		rewrite: func(text string) string {
			return strings.ReplaceAll(haproxyQuoted.ReplaceAllString(text, `"%$1"`), "%ci:%cp", "%cicp")
		},
		named:   []affix{{before: "[var(txn.header_", after: ")]", source: "header", folded: true}},
		escapes: '\\', requests: '#',
	}
	albWords = words{
		variable: regexp.MustCompile(`\$()([a-z_]+)`),
		kinds: map[string]kind{
			"request_creation_time": fine, "client": clientPort, "request": address, "elb_status_code": status, "request_processing_time": seconds,
			"target_processing_time": seconds, "response_processing_time": seconds,
		},
		named:   []affix{{before: "http_", source: "header", folded: true}},
		escapes: '\\', requests: '\\',
	}
	cloudfrontWords = words{
		kinds: map[string]kind{
			"date": day, "time": clock, "timestamp(ms)": fine, "timestamp": fine, "time-taken": seconds, "c-ip": client, "cs-method": method, "cs-uri-stem": path, "cs-uri-query": query,
			"x-host-header": host, "sc-status": status, "sc-content-len": sent,
		},
		named:   []affix{{before: "cs(", after: ")", source: "header"}},
		set:     []Setting{{Name{"header", "X-Forwarded-For"}, "x-forwarded-for"}},
		ends:    true,
		escapes: '%',
	}
	// The durations are of decisions, not of requests.
	sluiceWords = words{
		variable: nginxWords.variable,
		kinds: map[string]kind{
			"time": fine, "time_local": stamp, "client_ip": client, "method": method, "host": host, "path": path, "request": request, "status": status,
			"action": action, "rule": rule, "duration_us": took, "degraded": aside, "ahead": aside,
		},
		named:   []affix{{before: "http_", source: "header", folded: true}},
		escapes: '\\', requests: '\\',
	}
	// The words of json:FIELDS are in the parameter.
	noWords = words{}
)

var haproxyQuoted = regexp.MustCompile(`%\{\+Q(?:,\+E)?\}(\[[^\]]*\]|[a-zA-Z]+)`)

// formats has the formats. Of formats that read the same lines, the first one is found.
var formats = []kindOfFormat{
	{name: "sluice", words: &sluiceWords, build: fromJSON},
	{name: "sluice", words: &sluiceWords, build: fromTemplate, least: 11, text: `$client_ip - - [$time_local] "$request" $status - "$http_referer" "$http_user_agent" action=$action rule=$rule remaining=$remaining wait=$wait duration=$duration $rest`},
	{name: "caddy", words: &caddyWords, build: fromJSON},
	{name: "traefik", words: &traefikWords, build: fromJSON},
	{name: "traefik", words: &traefikWords, build: fromTemplate, text: `$ClientHost - $user [$Start] "$Request" $DownstreamStatus $DownstreamContentSize "$request_Referer" "$request_User-Agent" $count "$router" "$server" ${DurationMs}ms`},
	{name: "envoy", words: &envoyMembers, build: fromJSON},
	{name: "envoy", words: &envoyWords, build: fromTemplate, text: `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"`},
	{name: "envoy", words: &envoyWords, build: fromTemplate, example: `[%START_TIME%] "%REQ(:METHOD)% %REQ(:PATH)% %PROTOCOL%" %RESPONSE_CODE% %DURATION%`},
	{name: "haproxy", words: &haproxyWords, build: fromTemplate, text: `%cicp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %conns %queues "%r"`},
	{name: "haproxy", words: &haproxyWords, build: fromTemplate, example: `%ci [%tr] %Ta %ST %{+Q}r`},
	{name: "alb", words: &albWords, build: fromTemplate, least: 22, text: `$type $time $elb $client $target $request_processing_time $target_processing_time $response_processing_time $elb_status_code $target_status_code $received $sent "$request" "$http_user_agent" $cipher $protocol $group "$trace" "$domain" "$certificate" $priority $request_creation_time "$actions" "$redirect" $rest`},
	{name: "cloudfront", words: &cloudfrontWords, build: fromColumns, text: cloudfrontFields},
	{name: "json", words: &noWords, build: fromJSON, example: `time=ts,client=ip,method=method,target=uri,status=status`},
	{name: "combined", words: &nginxWords, build: fromTemplate, least: 6, text: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"$rest`},
	{name: "nginx", words: &nginxWords, build: fromTemplate, example: `$remote_addr [$time_local] "$request" $status`},
	{name: "apache", words: &apacheWords, build: fromTemplate, example: `%h %l %u %t "%r" %>s %b %D`},
}
