package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// Servers are the servers whose log formats LogFormat writes.
func Servers() []string { return []string{"nginx", "apache", "caddy", "envoy"} }

// formats are how servers write the parts of requests.
var formats = map[string]struct {
	start  string // what every policy needs
	words  map[string]string
	folded bool // names are in lower case with underscores
	text   string
}{ //nolint:gochecknoglobals // a table
	"nginx": {
		`$remote_addr $msec $host "$request" $status $body_bytes_sent $request_time $content_length`,
		map[string]string{"header": `"$http_%s"`, "cookie": `"$cookie_%s"`, "response": `"$sent_http_%s"`},
		true, "log_format sluice '%s';\naccess_log /var/log/nginx/sluice.log sluice;\n",
	},
	"apache": {
		`%a %{usec}t %{Host}i "%r" %>s %B %D`,
		map[string]string{"header": `"%%{%s}i"`, "cookie": `"%%{%s}C"`, "response": `"%%{%s}o"`},
		false, "LogFormat \"%s\" sluice\nCustomLog logs/sluice.log sluice\n",
	},
	"envoy": {
		`%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %START_TIME(%s.%6f)% "%REQ(:METHOD)% %REQ(:PATH)%" %REQ(:AUTHORITY)% %RESPONSE_CODE% %BYTES_SENT% %DURATION% %BYTES_RECEIVED%`,
		map[string]string{"header": `"%%REQ(%s)%%"`, "response": `"%%RESP(%s)%%"`},
		false, "log_format:\n  text_format_source:\n    inline_string: |\n      %s\n",
	},
}

// LogFormat returns the configuration of a server's log that has all that a policy needs, with the argument of --format. A
// comment lists what the server cannot log. It returns an error for an unknown server.
func LogFormat(server string, p *Policy) (string, error) {
	wanted, err := p.Wanted()
	if err != nil {
		return "", err
	}
	if server == "caddy" {
		return caddyFormat(wanted), nil
	}
	f, ok := formats[server]
	if !ok {
		return "", fmt.Errorf("the format of the server %s is not known; give one of %s", Inert(server), strings.Join(Servers(), ", "))
	}
	line, notes := f.start, ""
	for _, n := range slices.Compact(wanted) {
		word, ok := f.words[n.Source]
		name := n.Name
		switch {
		case n.Source == "query" || n == logs.Name{Source: "header", Name: "Host"}:
			continue // in the request
		case !ok:
			notes += fmt.Sprintf("# %s cannot log %s:%s; see --set and --assume of sluice replay\n", server, n.Source, name)
			continue
		case n == logs.Name{Source: "header", Name: "Authorization"}, n.Source == "cookie":
			notes += fmt.Sprintf("# the log will have secrets: %s:%s\n", n.Source, name)
		}
		if f.folded && n.Source != "cookie" {
			name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
		}
		line += " " + fmt.Sprintf(word, name)
	}
	quoted := line
	if server == "apache" {
		quoted = strings.ReplaceAll(line, `"`, `\"`)
	}
	return notes + fmt.Sprintf(f.text, quoted) + "# sluice replay LOG -c FILE --format '" + server + ":" + line + "'\n", nil
}

// caddyFormat returns the log of Caddy, which has all headers except secrets.
func caddyFormat(wanted []logs.Name) string {
	text := "log {\n\toutput file /var/log/caddy/sluice.log\n\tformat json\n}\n# sluice replay LOG -c FILE --format caddy\n"
	for _, n := range wanted {
		switch {
		case n.Source == "cookie", n == logs.Name{Source: "header", Name: "Authorization"}:
			return text + "# For " + n.Source + ":" + n.Name + ", add the global option servers { log_credentials }. The log will have secrets.\n"
		case n.Source == "claim", n.Source == "attribute":
			text += fmt.Sprintf("# caddy cannot log %s:%s; see --set and --assume of sluice replay\n", n.Source, n.Name)
		}
	}
	return text
}
