package policyfile

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluicehq/sluice/policy"
)

// places knows which settings the fields of a rule, or of the policy itself, come from.
type places struct {
	base string // the path of the rule, empty for the policy
	at   map[string]spot
	// entries are those of long lists, by the field's name.
	entries map[string][]spot
	bad     bool // there are limits that could not be made
}

// spot is a setting, or a line of another file that it names.
type spot struct {
	path string
	pos  Pos
	file string // empty for the file itself
}

// set says where a field comes from.
func (ps *places) set(field, path string) {
	if ps.at == nil {
		ps.at = map[string]spot{}
	}
	ps.at[field] = spot{path: path}
}

// add says where the next entry of a list comes from.
func (ps *places) add(field string, at spot) {
	if ps.entries == nil {
		ps.entries = map[string][]spot{}
	}
	ps.entries[field] = append(ps.entries[field], at)
}

var listField = regexp.MustCompile(`^(.*)\[(\d+)\]$`)

// find returns the setting of a field.
func (ps *places) find(field string) spot {
	words := strings.Split(field, ".")
	for n := len(words); n > 0; n-- {
		at, known := ps.at[strings.Join(words[:n], ".")]
		if !known && n == 1 {
			if m := listField.FindStringSubmatch(words[0]); m != nil {
				if i, _ := strconv.Atoi(m[2]); i < len(ps.entries[m[1]]) {
					at, known = ps.entries[m[1]][i], true
				}
			}
		}
		if !known {
			continue
		}
		if at.file == "" {
			at.path += settingOfField(words[n:])
		}
		return at
	}
	if ps.base == "" && strings.HasPrefix(words[0], "Classes[") {
		return spot{path: "classes" + strings.TrimPrefix(words[0], "Classes") + settingOfField(words[1:])}
	}
	return spot{path: strings.TrimPrefix(ps.base+settingOfField(words), ".")}
}

// settings are the names that fields of a policy have in a file, where they are not
// the same in another spelling.
var settings = map[string]string{
	"Paths": "path", "Methods": "method", "Hosts": "host", "Headers": "header", "Cookies": "cookie", "Queries": "query",
	"Attributes": "attribute", "ClientIPs": "client_ip", "Classes": "class", "Pressure": "pressure.at_least", "PressureOf": "pressure.of",
	"AllowKeys": "allow.key", "DenyKeys": "deny.key", "AllowIPs": "allow.client_ip", "DenyIPs": "deny.client_ip",
	"IPv6Prefix": "ipv6_prefix", "TTL": "ttl",
}

// settingOfField returns the path of a field below that of its rule.
func settingOfField(words []string) string {
	var b strings.Builder
	for _, word := range words {
		index := ""
		if i := strings.IndexByte(word, '['); i >= 0 {
			word, index = word[:i], word[i:]
		}
		name := settings[word]
		if name == "" {
			name = snake(word)
		}
		b.WriteString("." + name + index)
	}
	return b.String()
}

// snake writes "MaxWait" as "max_wait".
func snake(word string) string {
	var b strings.Builder
	for i, r := range word {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// report reports a mistake that the policy has found.
func (ps *places) report(s *source, e *policy.RuleError) {
	if ps.bad && consequence(e.Field) {
		return
	}
	problem := e.Problem
	if e.Value != "" {
		problem = quote(e.Value) + " " + problem
	}
	s.followSpot(ps.find(e.Field), problem, e.Remedy)
}

// consequence reports whether a mistake may follow from a limit or an expression that could not be made.
func consequence(field string) bool {
	top, _, _ := strings.Cut(field, ".")
	switch top {
	case "Limits", "Floor", "Cost", "Reserved", "Overrides":
		return true
	}
	return top == "Match" && strings.Contains(field, "Unless")
}
