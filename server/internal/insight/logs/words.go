package logs

import "regexp"

// words is what the fields of a server's logs are called. In a template, variable finds them: its groups make a name.
type words struct {
	variable *regexp.Regexp
	kinds    map[string]kind
	named    []affix
	ends     bool // times are when requests ended
	escapes  byte
}

// affix says which fields have a named part of the request: the name is between two texts.
type affix struct {
	before, after string
	source        string
	folded        bool // the name is in lower case with underscores
}

var nginxWords = words{
	variable: regexp.MustCompile(`\$\{?()([a-z0-9_]+)\}?`),
	kinds: map[string]kind{
		"msec": fine, "time_local": stamp, "time_iso8601": stamp, "request_time": seconds, "remote_addr": client, "realip_remote_addr": peer,
		"request": request, "request_uri": target, "uri": path, "document_uri": path, "args": query, "query_string": query,
		"request_method": method, "host": host, "http_host": host, "server_name": hostIfNone, "status": status, "body_bytes_sent": sent,
	},
	named:   []affix{{"http_", "", "header", true}, {"cookie_", "", "cookie", false}, {"arg_", "", "query", false}},
	ends:    true,
	escapes: '\\',
}

// Sizes that include headers are not among the words.
var apacheWords = words{
	variable: regexp.MustCompile(`%[<>!,\d]*(\{[^}]*\})?[<>]?(\^t[io]|[a-zA-Z%])`),
	kinds: map[string]kind{
		"h": peer, "a": client, "{c}a": peer, "r": request, "s": status, "b": sent, "B": sent, "m": method, "U": path,
		"q": query, "v": hostIfNone, "V": hostIfNone, "{Host}i": host,
		"t": stamp, "{sec}t": stamp, "{begin:sec}t": stamp, "{msec}t": fine, "{begin:msec}t": fine, "{usec}t": fine, "{begin:usec}t": fine,
		"D": usecs, "{us}T": usecs, "{ms}T": millis, "{s}T": seconds, "T": seconds,
	},
	named:   []affix{{"{", "}i", "header", false}, {"{", "}C", "cookie", false}},
	escapes: '\\',
}
