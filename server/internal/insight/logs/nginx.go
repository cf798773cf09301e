package logs

import (
	"errors"
	"regexp"
	"strings"
)

// combinedFormat is nginx's format of that name. Apache's is the same.
const combinedFormat = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

// combined makes the formats common and combined, and that of Sluice's own lines. Nginx writes the time of the end,
// and Apache the time of the beginning.
func combined(o *Options, _ string) (*format, error) {
	b := newBuilder(o, "combined")
	t := b.nginxTemplate(combinedFormat)
	t.needed = 6
	t.pieces = append(t.pieces, piece{fields: b.fields("", field{kind: behind})})
	return b.of(t)
}

// nginx makes the format of a log_format.
func nginx(o *Options, parameter string) (*format, error) {
	if parameter == "" {
		return nil, errors.New("logs: the format nginx needs the log_format, such as nginx:'$remote_addr [$time_local] \"$request\" $status'")
	}
	b := newBuilder(o, "nginx:"+parameter)
	return b.needing(b.nginxTemplate(parameter))
}

var nginxVariable = regexp.MustCompile(`\$\{?([a-z0-9_]+)\}?`)

// nginxTemplate makes a template of a log_format.
func (b *builder) nginxTemplate(text string) *template {
	t := &template{ends: true}
	for i := 0; i < len(text); {
		found := nginxVariable.FindStringSubmatchIndex(text[i:])
		if found == nil {
			t.literal(text[i:])
			break
		}
		t.literal(text[i : i+found[0]])
		name := text[i+found[2] : i+found[3]]
		t.pieces = append(t.pieces, piece{
			fields: b.fields(name, b.nginxField(name, strings.Contains(text, "$msec"))),
			list:   strings.HasPrefix(name, "upstream_"),
		})
		i += found[1]
	}
	return t
}

var nginxKinds = map[string]kind{
	"msec": stamp, "time_local": stamp, "time_iso8601": stamp, "request_time": seconds, "remote_addr": client, "realip_remote_addr": peer,
	"request": request, "request_uri": target, "uri": path, "document_uri": path, "args": query, "query_string": query,
	"request_method": method, "host": host, "http_host": host, "server_name": hostIfNone, "status": status, "body_bytes_sent": sent,
}

// nginxField returns what a variable gives. With $msec, other times are not exact enough to be of use.
func (b *builder) nginxField(name string, msec bool) field {
	k, known := nginxKinds[name]
	if known && (k != stamp || name == "msec" || !msec) {
		return field{kind: k}
	}
	if h, found := strings.CutPrefix(name, "http_"); found {
		return b.named(header(strings.ReplaceAll(h, "_", "-")))
	}
	if c, found := strings.CutPrefix(name, "cookie_"); found {
		return b.named(Name{"cookie", c})
	}
	if a, found := strings.CutPrefix(name, "arg_"); found {
		return b.named(Name{"query", a})
	}
	return field{}
}
