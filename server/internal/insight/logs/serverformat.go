package logs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ServerFormat is how a server writes a log that has what a policy reads.
type ServerFormat struct {
	Config string   // for the configuration of the server
	Format string   // for Options.Format
	Lacks  []Name   // what the log cannot have
	Notes  []string // about Lacks, and secrets
}

// String returns the configuration, with the notes and the format as comments.
func (f *ServerFormat) String() string {
	notes := ""
	for _, n := range f.Notes {
		notes += "# " + n + "\n"
	}
	return notes + f.Config + "# sluice replay LOG -c FILE --format '" + f.Format + "'\n"
}

// writer says how the configuration of a server is made. In the texts for a name, %[1]s is the name, and %[2]s the name in
// lower case with underscores.
type writer struct {
	config string            // with %[1]s for the fields and %[2]s for the lines of names
	format string            // with %[1]s for the fields
	fields string            // what each log has
	names  map[string]string // the field of a name, by its source; without a source, the log cannot have it
	lines  map[string]string // what the configuration has for each name, by its source
	hidden string            // how the log can have secrets, if it does not
}

var writers = map[string]writer{
	"nginx": {
		config: "log_format sluice '%[1]s';\naccess_log /var/log/nginx/sluice.log sluice;\n%[2]s", format: "nginx:%s",
		fields: `$remote_addr $host $msec "$request" $status $body_bytes_sent $content_length $request_time`,
		names:  map[string]string{"header": ` "$http_%[2]s"`, "cookie": ` "$cookie_%[1]s"`, "response": ` "$sent_http_%[2]s"`},
	},
	"apache": {
		config: "LogFormat \"%[1]s\" sluice\nCustomLog \"logs/sluice.log\" sluice\n%[2]s", format: "apache:%s",
		fields: `%a \"%{Host}i\" %{usec}t \"%r\" %>s %B %D`,
		names:  map[string]string{"header": ` \"%%{%[1]s}i\"`, "cookie": ` \"%%{%[1]s}C\"`, "response": ` \"%%{%[1]s}o\"`},
	},
	"haproxy": {
		config: "http-request set-var(txn.header_host) req.hdr(Host)\n%[2]slog-format '%[1]s'\n", format: "haproxy:%s", fields: `%ci:%cp [%tr] %Ta %ST %{+Q,+E}[var(txn.header_host)] %{+Q}r`,
		names: map[string]string{"header": ` %%{+Q,+E}[var(txn.header_%[2]s)]`},
		lines: map[string]string{"header": "http-request set-var(txn.header_%[2]s) req.hdr(%[1]s)\n"},
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
		names:  map[string]string{"header": ",header:%[1]s=header_%[2]s", "response": ",response:%[1]s=response_%[2]s"},
		lines:  map[string]string{"header": "    header_%[2]s: \"%%REQ(%[1]s)%%\"\n", "response": "    response_%[2]s: \"%%RESP(%[1]s)%%\"\n"},
	},
	"caddy": {
		config: "log {\n\toutput file /var/log/caddy/sluice.log\n\tformat json\n}\n%.0[1]s%[2]s", format: "caddy%.0s",
		names:  map[string]string{"header": "", "response": ""},
		hidden: "with the global option servers { log_credentials }, add --set header:%[1]s=field:request.headers.%[1]s",
	},
	"traefik": {
		config: "accessLog:\n  filePath: /var/log/traefik/sluice.log\n  format: json\n  fields:\n    headers:\n      names:\n        Host: keep\n%.0[1]s%[2]s",
		format: "traefik%.0s", names: map[string]string{"header": "", "response": ""},
		lines: map[string]string{"header": "        %[1]s: keep\n", "response": "        %[1]s: keep\n"},
	},
}

// Servers returns the names of the servers whose formats can be chosen.
func Servers() []string { return slices.Sorted(maps.Keys(writers)) }

// LogFormat returns how a server writes a log with these names. The log also has what all requests have, such as the
// client and the time in microseconds, if the server can write it.
func LogFormat(server string, needed []Name) (*ServerFormat, error) {
	w, found := writers[server]
	if !found {
		return nil, fmt.Errorf("logs: the format of the server %s cannot be chosen; give one of %s", printable(server), strings.Join(Servers(), ", "))
	}
	sf := &ServerFormat{}
	fields, lines := w.fields, ""
	done := map[Name]bool{{"header", "Host"}: true} // all logs have it, and queries
	for _, n := range needed {
		own := canonical(n)
		if form := w.names["cookie"]; own.Source == "cookie" && (form == "" || strings.Contains(form, "$") && !variable.MatchString(own.Name)) {
			own = Name{"header", "Cookie"}
		}
		if n.Source == "query" || done[own] {
			continue
		}
		done[own] = true
		text, has := w.names[own.Source]
		secret := own == Name{"header", "Authorization"} || n.Source == "cookie"
		folded := strings.ReplaceAll(strings.ToLower(own.Name), "-", "_")
		switch {
		case secret && w.hidden != "":
			sf.Notes = append(sf.Notes, fmt.Sprintf("the log has no %s:%s; ", n.Source, n.Name)+fill(w.hidden, own.Name, ""))
			sf.Lacks = append(sf.Lacks, n)
			continue
		case !has || strings.Contains(text, "%[2]s") && !strings.Contains(text, "%[1]s") && strings.Contains(own.Name, "_"),
			strings.ContainsAny(own.Name, " \t\r\n\"'\\%$[](){},="):
			sf.Notes = append(sf.Notes, fmt.Sprintf("%s cannot log %s:%s; see --set and --assume of sluice replay", server, n.Source, printable(n.Name)))
			sf.Lacks = append(sf.Lacks, n)
			continue
		case secret:
			sf.Notes = append(sf.Notes, fmt.Sprintf("the log will have secrets: %s:%s", own.Source, own.Name))
		}
		fields += fill(text, own.Name, folded)
		lines += fill(w.lines[own.Source], own.Name, folded)
	}
	sf.Config = fmt.Sprintf(w.config, fields, lines)
	sf.Format = strings.ReplaceAll(fmt.Sprintf(w.format, fields), `\"`, `"`)
	return sf, nil
}

// variable matches a name that can be a part of the name of a variable of nginx.
var variable = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// fill fills in a name, which the text need not have.
func fill(text, name, folded string) string {
	return fmt.Sprintf(text+"%.0[1]s%.0[2]s", name, folded)
}
