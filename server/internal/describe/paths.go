package describe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// encodedSlash describes what "%2F" is in the paths of requests, and for which services that is right. It is
// empty for a policy that uses no paths.
func encodedSlash(p *policy.Policy, o *policy.Options) string {
	uses := slices.ContainsFunc(p.Rules(), func(r *policy.Rule) bool { return usesPaths(&r.Match) || slices.ContainsFunc(r.Key, isOfPath) }) ||
		slices.ContainsFunc(o.Classes, func(c policy.Class) bool { return usesPaths(&c.Match) })
	if !uses {
		return ""
	}
	switch o.Paths.EncodedSlash {
	case policy.SlashKeep:
		return "paths with %2F match as one segment, as Express and Go's ServeMux read them; nginx, Flask and hypercorn need encoded_slash: decode"
	case policy.SlashDecode:
		return "paths with %2F match as two segments, as nginx, Flask and hypercorn read them; Express and Go's ServeMux need encoded_slash: keep"
	default:
		return "paths with %2F match as one segment and as two; encoded_slash: keep is for Express and Go's ServeMux, decode for nginx, Flask and hypercorn"
	}
}

// usesPaths reports whether a match depends on paths.
func usesPaths(m *policy.Match) bool {
	return len(m.Paths) > 0 || slices.ContainsFunc(m.Unless, func(u policy.Match) bool { return usesPaths(&u) }) ||
		slices.ContainsFunc(m.If, func(c policy.Matcher) bool {
			text, ok := c.(fmt.Stringer)
			return ok && strings.Contains(text.String(), "path")
		})
}

// isOfPath reports whether a part of a key comes from the path.
func isOfPath(p policy.Part) bool {
	return p.Source == source.Path || p.Source == source.Param
}
