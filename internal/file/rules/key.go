package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// KeyPart is one part of a key: a text such as client_ip, or a mapping.
type KeyPart struct {
	// Part is one of client_ip, path, route, method, host, global, header:NAME, cookie:NAME,
	// query:NAME, param:NAME, claim:NAME, attribute:NAME, descriptor:KEY and constant:TEXT. Or it is a template
	// of several, such as "{client_ip}/{header:X-Tenant}".
	Part string `yaml:"part"`
	// OnMissing is what happens to a request that lacks the part: such requests share one key, skip
	// the rule, or are denied. Default: share.
	OnMissing policy.Missing `yaml:"on_missing" oneof:"share skip deny"`
	// OnRepeated is what happens to a request that has the part several times, or in a spelling that not all
	// services read: it is denied, counts by the first or last value, or shares the key of requests without the
	// part. Default: deny.
	OnRepeated policy.Repeated `yaml:"on_repeated" oneof:"deny first last share"`
	// IPv6Prefix is how many leading bits of an IPv6 address count, for client_ip only. Default: the file's ipv6_prefix.
	IPv6Prefix int `yaml:"ipv6_prefix" unit:"bits"`
}

// Short implements [reader.Shorthand].
func (*KeyPart) Short(list bool) string { return reader.Single("part", list) }

// Unknown suggests "header:X-User" for {header: X-User}: a space after the colon makes a mapping.
func (*KeyPart) Unknown(name, text string) string {
	part := name + ":" + text
	if _, err := policy.ParsePart(part); err != nil || text == "" {
		return ""
	}
	return fmt.Sprintf("write the part as one text, in quotes: %q", part)
}

// build makes the part of a key.
func (k *KeyPart) build(s *reader.Source, path string) policy.Part {
	text := k.Part
	if strings.HasPrefix(text, "{") {
		text = "template:" + text
	}
	p, err := policy.ParsePart(text)
	if err != nil {
		at := path
		if s.Has(path + ".part") {
			at += ".part"
		}
		word, name, named := strings.Cut(k.Part, ":")
		parts := []string{"client_ip", "header:NAME", "cookie:NAME", "query:NAME", "path", "param:NAME", "route", "method", "host", "claim:NAME", "attribute:NAME", "descriptor:KEY", "global", "constant:TEXT", "template:TEXT"}
		switch {
		case k.Part == "":
			s.Follow(at, "is missing", "give client_ip or another part")
		case named && name == "":
			s.Follow(at, reader.Quote(k.Part)+" has no name", fmt.Sprintf("write %s:NAME", word))
		case named && slices.Contains(parts, word):
			s.Follow(at, reader.Quote(k.Part)+" has a name, and takes none", "write "+word)
		default:
			words := make([]string, len(parts))
			for i, w := range parts {
				words[i], _, _ = strings.Cut(w, ":")
			}
			suggestion := "give " + reader.OneOf(parts)
			if w := reader.Nearest(word, words); w != "" {
				suggestion = fmt.Sprintf("did you mean %q?", strings.TrimSuffix(w+":"+name, ":"))
			}
			if meant := partMeant(k.Part); meant != "" {
				suggestion = meant
			}
			if !named && slices.Contains(words, word) {
				suggestion = fmt.Sprintf("write %s:NAME", word)
			}
			s.Follow(at, reader.Quote(k.Part)+" is not a part of a key", suggestion)
		}
		// This part does not fail again.
		p = policy.Global()
	}
	p.OnMissing, p.OnRepeated, p.IPv6Prefix = k.OnMissing, k.OnRepeated, k.IPv6Prefix
	return p
}

// partMeant suggests what a text means that is not a part of a key, empty if that is not clear.
func partMeant(text string) string {
	parses := func(part string) bool {
		_, err := policy.ParsePart(part)
		return err == nil
	}
	if strings.Contains(text, "{") && parses("template:"+text) {
		return fmt.Sprintf("did you mean %q?", "template:"+text)
	}
	if parts := strings.Split(text, ","); len(parts) > 1 {
		for i, part := range parts {
			if part = strings.TrimSpace(part); !parses(part) {
				return ""
			}
			if parts[i] = part; strings.Contains(part, ":") {
				parts[i] = fmt.Sprintf("%q", part)
			}
		}
		return "write several parts as a list: [" + strings.Join(parts, ", ") + "]"
	}
	if looksLikeHeader.MatchString(text) && parses("header:"+text) {
		return fmt.Sprintf("did you mean %q?", "header:"+text)
	}
	return ""
}

// looksLikeHeader matches names with a dash, and names in capitals, as headers have.
var looksLikeHeader = regexp.MustCompile(`^[A-Za-z0-9]+(-[A-Za-z0-9]+)+$|^[A-Z][a-z]{4,}$`)

// keyParts returns how many values a key of the rule has.
func (r *Rule) keyParts() (n int) {
	for i := range r.Key {
		if part := r.Key[i].Part; strings.HasPrefix(part, "{") || strings.HasPrefix(part, "template:") {
			n += strings.Count(part, "{")
		} else {
			n++
		}
	}
	return n
}
