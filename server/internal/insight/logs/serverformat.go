package logs

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	texts "text/template"
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

//go:embed serverformat.txt
var serverFormats string

// serverTexts has what servers write. A text fails for a name that the server cannot distinguish from others.
var serverTexts = texts.Must(texts.New("").Funcs(texts.FuncMap{
	"folded": folded,
	"alone": func(name string) (string, error) {
		if strings.Contains(name, "_") {
			return "", fmt.Errorf("the name %s is the same with a hyphen", name)
		}
		return folded(name), nil
	},
	"variable": func(name string) (string, error) {
		if !regexp.MustCompile(`^[A-Za-z0-9_]+$`).MatchString(name) {
			return "", fmt.Errorf("no variable has the name %s", name)
		}
		return name, nil
	},
}).Parse(serverFormats))

// folded returns a name in lower case with underscores.
func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// fill returns a text of a server; false if it has none.
func fill(text string, data any) (string, bool) {
	if serverTexts.Lookup(text) == nil {
		return "", false
	}
	var b strings.Builder
	err := serverTexts.ExecuteTemplate(&b, text, data)
	return b.String(), err == nil
}

// Servers returns the names of the servers whose formats can be chosen.
func Servers() []string { return []string{"apache", "caddy", "envoy", "haproxy", "nginx", "traefik"} }

// LogFormat returns how a server writes a log with these names. The log also has what all requests have, such as the
// client and the time in microseconds, if the server can write it.
func LogFormat(server string, needed []Name) (*ServerFormat, error) {
	if !slices.Contains(Servers(), server) {
		return nil, fmt.Errorf("logs: the format of the server %s cannot be chosen; give one of %s", printable(server), strings.Join(Servers(), ", "))
	}
	sf := &ServerFormat{}
	var has struct{ Fields, Lines string }
	has.Fields, _ = fill(server+" fields", nil)
	done := map[Name]bool{{"header", "Host"}: true} // all logs have it, and queries
	for _, n := range needed {
		own := canonical(n)
		text, logged := fill(server+" "+own.Source, own.Name)
		if own.Source == "cookie" && !logged {
			own = Name{"header", "Cookie"}
			text, logged = fill(server+" header", own.Name)
		}
		if n.Source == "query" || done[own] {
			continue
		}
		done[own] = true
		secret := own == Name{"header", "Authorization"} || n.Source == "cookie"
		remedy, hidden := fill(server+" hidden", own.Name)
		switch {
		case secret && hidden:
			sf.Notes = append(sf.Notes, fmt.Sprintf("the log has no %s:%s; %s", n.Source, n.Name, remedy))
			sf.Lacks = append(sf.Lacks, n)
			continue
		case !logged || strings.ContainsAny(own.Name, " \t\r\n\"'\\%$[](){},="):
			sf.Notes = append(sf.Notes, fmt.Sprintf("%s cannot log %s:%s; see --set and --assume of sluice replay", server, n.Source, printable(n.Name)))
			sf.Lacks = append(sf.Lacks, n)
			continue
		case secret:
			sf.Notes = append(sf.Notes, fmt.Sprintf("the log will have secrets: %s:%s", own.Source, own.Name))
		}
		line, _ := fill(server+" "+own.Source+" line", own.Name)
		has.Fields, has.Lines = has.Fields+text, has.Lines+line
	}
	sf.Config, _ = fill(server, has)
	sf.Format, _ = fill(server+" format", has)
	sf.Format = strings.ReplaceAll(sf.Format, `\"`, `"`)
	return sf, nil
}
