package logs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ServerFormat is how a server writes a log that has what a policy reads.
type ServerFormat struct {
	Config string // for the configuration of the server
	Format string // for Options.Format
	Lacks  []Name // what the log cannot have
}

// writer says how the configuration of a server is made. In the texts for a name, %[1]s is the name, and %[2]s the name in
// lower case with underscores.
type writer struct {
	config string            // with %[1]s for the fields and %[2]s for the lines of names
	format string            // with %[1]s for the fields
	fields string            // what each log has
	names  map[string]string // the field of a name, by its source; without a source, the log cannot have it
	lines  string            // what the configuration has for each name
}

var writers = map[string]writer{
	"nginx": {
		config: "log_format replay '%[1]s';\naccess_log /var/log/nginx/replay.log replay;\n%[2]s", format: "nginx:%s",
		fields: `$remote_addr $host $msec "$request" $status $body_bytes_sent $content_length $request_time`,
		names:  map[string]string{"header": ` "$http_%[2]s"`, "cookie": ` "$cookie_%[1]s"`, "response": ` "$sent_http_%[2]s"`},
	},
	"apache": {
		config: "LogFormat \"%[1]s\" replay\nCustomLog \"logs/replay.log\" replay\n%[2]s", format: "apache:%s",
		fields: `%a \"%{Host}i\" %{usec}t \"%r\" %>s %B %D`,
		names:  map[string]string{"header": ` \"%%{%[1]s}i\"`, "cookie": ` \"%%{%[1]s}C\"`, "response": ` \"%%{%[1]s}o\"`},
	},
	"haproxy": {
		config: "http-request set-var(txn.header_host) req.hdr(Host)\n%[2]slog-format '%[1]s'\n", format: "haproxy:%s", fields: `%ci:%cp [%tr] %Ta %ST %{+Q,+E}[var(txn.header_host)] %{+Q}r`,
		names: map[string]string{"header": ` %%{+Q,+E}[var(txn.header_%[2]s)]`},
		lines: "http-request set-var(txn.header_%[2]s) req.hdr(%[1]s)\n",
	},
	"envoy": {
		config: `log_format:
  json_format:
    time: "%%START_TIME%%"
    duration: "%%DURATION%%"
    client: "%%DOWNSTREAM_REMOTE_ADDRESS%%"
    method: "%%REQ(:METHOD)%%"
    target: "%%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%%"
    host: "%%REQ(:AUTHORITY)%%"
    status: "%%RESPONSE_CODE%%"
    sent: "%%BYTES_SENT%%"
    received: "%%BYTES_RECEIVED%%"
%.0[1]s%[2]s`, format: "json:%s",
		fields: "time=time,duration_ms=duration,client=client,method=method,target=target,host=host,status=status,sent=sent,received=received",
		names:  map[string]string{"header": ",header:%[1]s=header_%[2]s"},
		lines:  "    header_%[2]s: \"%%REQ(%[1]s)%%\"\n",
	},
	"caddy": {
		config: "log {\n\toutput file /var/log/caddy/replay.log\n\tformat json\n}\n%.0[1]s%[2]s", format: "caddy%.0s",
		names: map[string]string{"header": "", "response": ""},
	},
	"traefik": {
		config: "accessLog:\n  filePath: /var/log/traefik/replay.log\n  format: json\n  fields:\n    headers:\n      names:\n        Host: keep\n%.0[1]s%[2]s",
		format: "traefik%.0s", names: map[string]string{"header": "", "response": ""}, lines: "        %[1]s: keep\n",
	},
}

// LogFormat returns how a server writes a log with these names. The log also has what all requests have, such as the
// client and the time in microseconds, if the server can write it.
func LogFormat(server string, needed []Name) (*ServerFormat, error) {
	w, found := writers[server]
	if !found {
		return nil, fmt.Errorf("logs: the format of %s cannot be chosen; take one of %s", printable(server), strings.Join(slices.Sorted(maps.Keys(writers)), ", "))
	}
	sf := &ServerFormat{}
	fields, lines := w.fields, ""
	done := map[Name]bool{}
	for _, n := range needed {
		own := canonical(n)
		if _, has := w.names["cookie"]; own.Source == "cookie" && !has {
			own = Name{"header", "Cookie"}
		}
		text, has := w.names[own.Source]
		switch {
		case n.Source == "query" || done[own] || own == Name{"header", "Host"}: // all logs have them
			continue
		case !has || strings.ContainsAny(own.Name, " \t\r\n\"'\\%$[](){},=") || server == "caddy" && slices.Contains(caddyWords.hidden, "request.headers."+own.Name):
			sf.Lacks = append(sf.Lacks, n)
			continue
		}
		done[own] = true
		folded := strings.ReplaceAll(strings.ToLower(own.Name), "-", "_")
		if text != "" {
			fields += fmt.Sprintf(text+"%.0[1]s%.0[2]s", own.Name, folded)
		}
		if w.lines != "" {
			lines += fmt.Sprintf(w.lines+"%.0[1]s%.0[2]s", own.Name, folded)
		}
	}
	sf.Config = fmt.Sprintf(w.config, fields, lines)
	sf.Format = strings.ReplaceAll(fmt.Sprintf(w.format, fields), `\"`, `"`)
	return sf, nil
}
