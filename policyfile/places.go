package policyfile

import (
	"fmt"
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
	"Statuses": "status", "Attempts": "of", "IPv6Prefix": "ipv6_prefix", "TTL": "ttl",
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

// inWords puts the words of files in place of those of programs.
var inWords = strings.NewReplacer(
	"give Down or Up, in bytes, such as sluice.PerSecond(1_000_000)", "give down or up, such as 1MB/s",
	"an Estimate", "an estimate", "MaxWait to sluice.NoWait", "max_wait to 0s", "sluice.NoWait", "0s",
	"leave out Counts.Attempts", "count allowed requests", "the action is deny", "the action is reject",
	"of Limits", "of a limit", "CostConstant, CostHeader, CostRequestBytes, CostResponseBytes or CostResponseHeader", "another",
)

// report reports a mistake that the policy has found.
func (ps *places) report(s *source, e *policy.RuleError) {
	problem := e.Problem
	if e.Value != "" {
		problem = quote(e.Value) + " " + problem
	}
	top, _, _ := strings.Cut(e.Field, ".")
	if ps.bad {
		switch top {
		case "Limits", "Floor", "Cost", "Reserved", "Overrides", "Match":
			if !strings.Contains(top, "[") && (top != "Match" || strings.Contains(e.Field, "Unless")) {
				return // a consequence of a limit or an expression that was not made
			}
		}
	}
	at := ps.find(e.Field)
	switch e.Field {
	case "WhenLimited.Header", "WhenLimited.RequestHeader":
		if e.Value != "" {
			at.path += "." + e.Value
		}
	case "Ban.Escalate": // a list of more
		at.path = ps.base + ".ban.for"
	}
	if m := listField.FindStringSubmatch(e.Field); len(m) == 3 && m[1] == "Ban.Escalate" {
		index, _ := strconv.Atoi(m[2])
		at.path = fmt.Sprintf("%s.ban.for[%d]", ps.base, index+1) // all but the first
	}
	what, suggestion, _ := strings.Cut(inWords.Replace(problem), "; ")
	s.followSpot(at, what, suggestion)
}
