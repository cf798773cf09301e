package policy

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy/internal/keys"
	"github.com/sluicehq/sluice/policy/internal/paths"
	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// newParts checks the parts of a rule's key, replaces templates by their parts, and fills in defaults.
func (c *compiler) newParts(r *Rule, m *matcher) []Part {
	if len(r.Key) == 0 {
		c.report("Key", "", fault{"is missing", "give the parts that distinguish clients, or global for one budget that all share"})
	}
	parts := make([]Part, 0, len(r.Key))
	for i := range r.Key {
		field, p := fmt.Sprintf("Key[%d]", i), r.Key[i]
		inside := []Part{p}
		if p.Source == source.Template {
			var f fault
			if inside, f = p.expand(); f != (fault{}) {
				c.report(field, p.String(), f)
				continue
			}
		}
		for _, p := range inside {
			if f := checkPart(&p, m); f != (fault{}) {
				c.report(field, p.String(), f)
			}
			if p.IPv6Prefix == 0 {
				p.IPv6Prefix = c.options.IPv6Prefix
			}
			if p.Source == FromHeader {
				p.Name = textproto.CanonicalMIMEHeaderKey(p.Name)
			}
			parts = append(parts, p)
		}
	}
	return parts
}

// checkPart returns what is wrong with a part, if anything.
func checkPart(p *Part, m *matcher) (f fault) {
	switch {
	case p.Source < source.Constant || p.Source > source.Function:
		return fault{"has no source", "make it with ClientIP, Header and the like"}
	case p.Source == source.Function && (p.Name == "" || p.Value == nil):
		return fault{"has no name or no function", "make it with Function"}
	case p.Source.Named() && p.Name == "":
		return fault{"has no name", "write it as in " + examplePart[p.Source]}
	case !p.Source.Named() && p.Name != "":
		return fault{"has a name, and takes none", "leave the name out"}
	case int(p.OnRepeated) >= len(repeatedNames):
		return fault{"has an unknown OnRepeated", "give RepeatedDeny, RepeatedFirst, RepeatedLast or RepeatedShared"}
	case p.OnRepeated != RepeatedDeny && !p.Source.Repeats():
		return fault{"has a choice for several values, and a request has only one", "leave it out"}
	case int(p.OnMissing) >= len(missingNames):
		return fault{"has an unknown OnMissing", "give MissingShared, MissingSkip or MissingDeny"}
	case p.Source == source.Descriptor && !m.descriptor:
		return fault{"is the value of a descriptor, and the rule matches requests", "give the rule a descriptor to match, or another part"}
	case p.IPv6Prefix != 0 && p.Source != source.ClientIP:
		return fault{"has an IPv6 prefix, which only client_ip takes", "leave it out"}
	case p.IPv6Prefix < 0 || p.IPv6Prefix > 128:
		return fault{fmt.Sprintf("has the IPv6 prefix %d", p.IPv6Prefix), "give 1 to 128"}
	}
	if p.Value != nil {
		return f // the function finds the value, so the source needs no check
	}
	switch p.Source {
	case FromHeader:
		return fault(spelling.CheckHeader(p.Name))
	case FromCookie:
		if !spelling.IsName(p.Name) {
			return fault{"does not name a cookie", "give a name such as session"}
		}
	case source.Param:
		for i := range m.patterns {
			if m.patterns[i].Param(p.Name) < 0 {
				return fault{fmt.Sprintf("is in no segment of the path pattern %q", m.patterns[i].Text), fmt.Sprintf("name one {%s}", p.Name)}
			}
		}
	}
	return f
}

// valueOf reads a part of a request.
func (r *rule) valueOf(p *Part, a *Attributes, pattern int) (v keys.Value) {
	if p.Value != nil {
		v.Text, v.OK = p.Value(a)
		v.OK = v.OK && v.Text != ""
		return v
	}
	switch p.Source {
	case source.Constant:
		return keys.Value{Text: p.Name, OK: true}
	case source.ClientIP:
		return keys.Value{Addr: a.ClientIP, Prefix: uint8(p.IPv6Prefix), OK: a.ClientIP.IsValid()}
	case FromHeader, FromCookie, FromQuery, FromClaim, source.Attribute:
		if !a.known || a.repeatable != nil || p.Source == FromCookie || spelling.IsCredentials(p.Name) || p.isModel() {
			return p.valueOf(a.Read(p.Source, p.Name))
		}
		if v.Text, _ = a.value(p.Source, p.Name); p.Source == FromHeader || p.Source == FromQuery {
			v.Text, _ = spelling.Token(v.Text)
		}
	case source.Path:
		v.Text = a.Path
	case source.Param:
		v.Text, _ = patterns.At(a.Path, r.match.patterns[pattern].Param(p.Name))
	case source.Route:
		v.Text = r.match.patterns[pattern].Text
	case source.Method:
		v.Text = r.methodOf(a.Method)
	case source.Host:
		v.Text = a.Host
	}
	v.OK = v.Text != ""
	return v
}

// read reads the parts of a rule's key from the current variant of the path.
func (s *scratch) read(r *rule, pattern int) {
	a, values := &s.attributes, s.values[:0]
	path, merged := a.Path, s.variants[s.variant].merged
	if len(merged) != len(path) {
		a.Path = merged
		defer func() { a.Path = path }()
	}
	for i := range r.parts {
		values = append(values, r.valueOf(&r.parts[i], a, pattern))
	}
	s.values = values
}

// isModel reports whether the part is the model of a request.
func (p *Part) isModel() bool { return p.Source == source.Attribute && p.Name == ModelAttribute }

// makeKey makes the key of the values in s, one for each part of the rule's key. If the request lacks a
// part with MissingDeny or MissingSkip, makeKey returns that part; MissingDeny wins. repeated means that the request has
// the part several times.
func (s *scratch) makeKey(parts []Part) (k keys.Ref, missing *Part, repeated bool) {
	lacking := false
	for i := range s.values {
		v := &s.values[i]
		if v.OK {
			continue
		}
		lacking = true
		switch p := &parts[i]; {
		case v.Repeated && p.OnRepeated != RepeatedShared:
			return k, p, true
		case v.Repeated:
		case p.OnMissing == MissingDeny:
			return k, p, false
		case p.OnMissing == MissingSkip && missing == nil:
			missing = p
		}
	}
	if missing != nil {
		return k, missing, false
	}
	return s.keys.Add(s.values, lacking), nil, false
}

// valueOf returns the value of the part for what a request has.
func (p *Part) valueOf(r Found) keys.Value {
	v := keys.Value{Text: r.First}
	if r.Count > CountOne {
		switch p.OnRepeated {
		case RepeatedFirst:
		case RepeatedLast:
			v.Text = r.Last
		default:
			return keys.Value{Repeated: true}
		}
	}
	if p.Source == FromHeader && spelling.IsCredentials(p.Name) {
		v.Text = spelling.CredentialsKey(v.Text)
	}
	v.OK = v.Text != ""
	return v
}

// valueFrom reads the value of a part from a text of a RuleRequest. If it cannot, it returns why.
func (r *rule) valueFrom(p *Part, text string, form paths.Form) (v keys.Value, f fault) {
	v = keys.Value{Text: text, OK: text != "" || p.Source == source.Descriptor}
	if !v.OK {
		return v, f
	}
	switch p.Source {
	case FromHeader, FromCookie, FromQuery:
		v.Text, _ = cleanValue(p.Source, p.Name, text)
		if p.Source == FromHeader && spelling.IsCredentials(p.Name) {
			v.Text = spelling.CredentialsKey(v.Text)
		}
		v.OK = v.Text != ""
	case source.ClientIP:
		address, _, network := strings.Cut(text, "/") // as lists of keys have IPv6
		addr, err := netip.ParseAddr(address)
		if err == nil && network {
			var n netip.Prefix
			if n, err = netip.ParsePrefix(text); err == nil && (addr.Unmap().Is4() || n.Bits() < p.IPv6Prefix) && n.Bits() < addr.BitLen() {
				return v, fault{"is a network with several keys", "give an address such as 192.0.2.7; lists of a rule take networks"}
			}
		}
		if err != nil {
			return v, fault{"is not an address", "give one such as 192.0.2.7"}
		}
		v.Text, v.Addr, v.Prefix = "", addr, uint8(p.IPv6Prefix)
	case source.Path:
		v.Text = form.Clean(text)
	case source.Param:
		v.Text = form.Clean("/" + strings.ReplaceAll(text, "/", "%2F"))[1:]
		v.OK = v.Text != ""
	case source.Host:
		if CheckHost(text) != nil && !spelling.IsAddress(text) {
			return v, fault{"is not a host", "give one such as api.example.com"}
		}
		v.Text = spelling.Host(text)
		v.OK = v.Text != ""
	case source.Method:
		if f := fault(spelling.CheckRuleMethod(text)); f != (fault{}) && text != spelling.OtherMethod {
			return v, f
		}
		v.Text = r.methodOf(text)
	}
	return v, f
}

// methodOf returns the value of source.Method in keys of the rule, which may name methods of its own.
func (r *rule) methodOf(method string) string {
	if method == "" || slices.Contains(r.match.methods, method) {
		return method
	}
	return spelling.Method(method)
}

// checkShared reports a ban on a key that all clients share, unless BanShared is set. Any client could ban
// all others.
func (c *compiler) checkShared(r *Rule) {
	shared := !slices.ContainsFunc(r.Key, func(p Part) bool { return p.OfClient() })
	own := slices.ContainsFunc(r.Key, func(p Part) bool { return p.OfClient() && !p.Chosen() })
	earned := r.Ban != nil && r.Ban.After > 0
	switch {
	case r.BanShared && !earned:
		c.report("BanShared", "", fault{"is set, and no denial leads to a ban", "leave it out"})
	case r.BanShared && own:
		c.report("BanShared", "", fault{"is set, and a part of the key distinguishes clients", "leave it out"})
	}
	if !earned || !shared || r.BanShared || len(r.Key) == 0 {
		return
	}
	c.report("Ban", "", fault{
		"bans all clients at once, because no part of the key distinguishes them",
		"add a part such as client_ip to the key, or say that the ban is shared",
	})
}

// readKey reads the values of a key into s. If they are not a key of the rule, it returns why.
func (r *rule) readKey(s *scratch, key []string, form paths.Form) (f fault) {
	wanted := 0
	s.values = s.values[:0]
	for i := range r.parts {
		part := &r.parts[i]
		if part.Source == source.Constant {
			s.values = append(s.values, keys.Value{Text: part.Name, OK: true})
			continue
		}
		wanted++
		if wanted > len(key) {
			continue
		}
		v, f := r.valueFrom(part, key[wanted-1], form)
		if f != (fault{}) {
			f.Problem = fmt.Sprintf("part %d of the key, %s, %s", wanted, part, f.Problem)
			return f
		}
		if part.Source == source.ClientIP {
			s.client = v.Addr
		}
		s.values = append(s.values, v)
	}
	if wanted == len(key) {
		return f
	}
	var names []string
	for i := range r.parts {
		if part := &r.parts[i]; part.Source != source.Constant {
			names = append(names, part.String())
		}
	}
	return fault{fmt.Sprintf("the key and the rule's differ in their number of parts, %d and %d: %v", len(key), wanted, names), "give a value for each"}
}
