package policy

import (
	"fmt"
	"strings"
)

// expand returns the parts in the braces of a template, with the template's
// IPv6Prefix and OnMissing. problem says why it is none.
func (p *Part) expand() (parts []Part, problem string) {
	rest := p.Name
	for {
		text, behind, found := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, "has a closing brace that opens nowhere; write parts as in {client_ip}"
		}
		if !found {
			break
		}
		inner, behind, closed := strings.Cut(behind, "}")
		if !closed || strings.Contains(inner, "{") {
			return nil, "has a brace that is not closed; write parts as in {client_ip}"
		}
		part, err := ParsePart(inner)
		switch {
		case err != nil:
			return nil, fmt.Sprintf("has {%s}, which is no part of a key; write one as in {client_ip} or {header:X-Tenant}", inner)
		case part.Source == FromTemplate:
			return nil, fmt.Sprintf("has the template {%s} in it; write its parts there", inner)
		}
		if part.Source == FromClientIP {
			part.IPv6Prefix = p.IPv6Prefix
		}
		part.OnMissing = p.OnMissing
		parts = append(parts, part)
		rest = behind
	}
	if len(parts) == 0 {
		return nil, "has no part in braces, such as {client_ip}; for the same text for all requests, give a constant"
	}
	return parts, ""
}
