package policy

import (
	"fmt"
	"strings"
)

// expand returns the parts in the braces of a template, with the template's
// IPv6Prefix and OnMissing, or what is wrong with the template.
func (p *Part) expand() (parts []Part, f fault) {
	rest := p.Name
	for {
		text, behind, found := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, fault{"has a closing brace that opens nowhere", "write parts as in {client_ip}"}
		}
		if !found {
			break
		}
		inner, behind, closed := strings.Cut(behind, "}")
		if !closed || strings.Contains(inner, "{") {
			return nil, fault{"has a brace that is not closed", "write parts as in {client_ip}"}
		}
		part, err := ParsePart(inner)
		switch {
		case err != nil:
			return nil, fault{fmt.Sprintf("has {%s}, which is not a part of a key", inner), "write one as in {client_ip} or {header:X-Tenant}"}
		case part.Source == FromTemplate:
			return nil, fault{fmt.Sprintf("has the template {%s} in it", inner), "write its parts there"}
		}
		if part.Source == FromClientIP {
			part.IPv6Prefix = p.IPv6Prefix
		}
		part.OnMissing = p.OnMissing
		parts = append(parts, part)
		rest = behind
	}
	if len(parts) == 0 {
		return nil, fault{"has no part in braces, such as {client_ip}", "for the same text for all requests, give a constant"}
	}
	return parts, f
}
