package policy

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice"
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
		if p.Source == FromTemplate {
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
	case p.Source < FromConstant || int(p.Source) >= len(sourceNames):
		return fault{"has no source", "make it with ClientIP, Header and the like"}
	case p.Source == FromFunction && (p.Name == "" || p.Value == nil):
		return fault{"has no name or no function", "make it with Function"}
	case p.Source.named() && p.Name == "":
		return fault{"has no name", "write it as in " + examplePart[p.Source]}
	case !p.Source.named() && p.Name != "":
		return fault{"has a name, and takes none", "leave the name out"}
	case int(p.OnRepeated) >= len(repeatedNames):
		return fault{"has an unknown OnRepeated", "give RepeatedDeny, RepeatedFirst, RepeatedLast or RepeatedShared"}
	case p.OnRepeated != RepeatedDeny && !p.Source.repeats():
		return fault{"has a choice for several values, and a request has only one", "leave it out"}
	case int(p.OnMissing) >= len(missingNames):
		return fault{"has an unknown OnMissing", "give MissingShared, MissingSkip or MissingDeny"}
	case p.Source == FromDescriptor && !m.descriptor:
		return fault{"is the value of a descriptor, and the rule matches requests", "give the rule a descriptor to match, or another part"}
	case p.IPv6Prefix != 0 && p.Source != FromClientIP:
		return fault{"has an IPv6 prefix, which only client_ip takes", "leave it out"}
	case p.IPv6Prefix < 0 || p.IPv6Prefix > 128:
		return fault{fmt.Sprintf("has the IPv6 prefix %d", p.IPv6Prefix), "give 1 to 128"}
	}
	if p.Value != nil {
		return f // the function finds the value, so the source needs no check
	}
	switch p.Source {
	case FromHeader:
		return checkHeader(p.Name)
	case FromCookie:
		if !isToken(p.Name) {
			return fault{"does not name a cookie", "give a name such as session"}
		}
	case FromParam:
		for i := range m.patterns {
			if m.patterns[i].param(p.Name) < 0 {
				return fault{fmt.Sprintf("is in no segment of the path pattern %q", m.patterns[i].text), fmt.Sprintf("name one {%s}", p.Name)}
			}
		}
	}
	return f
}

// partValue is what a request has for a part: an address, or a text.
type partValue struct {
	text string
	addr netip.Addr
	ok   bool
	// repeated means that the request has several values, which are neither used nor missing.
	repeated bool
}

// valueOf reads a part of a request.
func (r *rule) valueOf(p *Part, a *Attributes, pattern int) (v partValue) {
	if p.Value != nil {
		v.text, v.ok = p.Value(a)
		v.ok = v.ok && v.text != ""
		return v
	}
	switch p.Source {
	case FromConstant:
		return partValue{text: p.Name, ok: true}
	case FromClientIP:
		return partValue{addr: a.ClientIP, ok: a.ClientIP.IsValid()}
	case FromHeader, FromCookie, FromQuery, FromClaim, FromAttribute:
		if !a.known || a.repeatable != nil || p.Source == FromCookie || isCredentials(p.Name) {
			return p.valueOf(a.Read(p.Source, p.Name))
		}
		if v.text, _ = a.value(p.Source, p.Name); p.Source == FromHeader || p.Source == FromQuery {
			v.text, _ = cleanToken(v.text)
		}
	case FromPath:
		v.text = a.Path
	case FromParam:
		v.text, _ = segmentAt(a.Path, r.match.patterns[pattern].param(p.Name))
	case FromRoute:
		v.text = r.match.patterns[pattern].text
	case FromMethod:
		v.text = r.methodOf(a.Method)
	case FromHost:
		v.text = a.Host
	}
	v.ok = v.text != ""
	return v
}

// keyRef is a key that is not made yet: one existing text, or a piece of the scratch buffer.
type keyRef struct {
	text       string
	start, end int
	parts      int
	// lacking means that a part is missing. repeated means that it has several values.
	lacking, repeated bool
}

// key returns the key once the buffer has become a string.
func (k keyRef) key(buffer string) sluice.Key {
	if k.end > k.start {
		return sluice.EncodedKey(buffer[k.start:k.end], k.parts)
	}
	return sluice.EncodedKey(k.text, k.parts)
}

// bytes returns the key as a piece of the buffer and as a text; one of the two is empty.
func (k keyRef) bytes(buffer []byte) ([]byte, string) { return buffer[k.start:k.end], k.text }

// makeKey makes the key of the values in s, one for each part of the rule's key. If the request lacks a
// part with MissingDeny or MissingSkip, makeKey returns that part; MissingDeny wins.
//
// A missing part with MissingShared is empty in the key. One more part at the end of the key lists the
// missing parts, so that no value is mistaken for a missing part.
func (s *scratch) makeKey(parts []Part) (k keyRef, missing *Part) {
	lacking := false
	for i := range s.values {
		if s.values[i].ok {
			continue
		}
		lacking = true
		if s.values[i].repeated {
			if parts[i].OnRepeated != RepeatedShared {
				return keyRef{repeated: true}, &parts[i]
			}
			continue
		}
		switch parts[i].OnMissing {
		case MissingDeny:
			return k, &parts[i]
		case MissingSkip:
			if missing == nil {
				missing = &parts[i]
			}
		}
	}
	if missing != nil {
		return k, missing
	}
	if len(parts) == 1 && !lacking {
		if v := &s.values[0]; !v.addr.IsValid() {
			return keyRef{text: v.text, parts: 1}, nil
		}
		return s.addressKey(s.values[0].addr, parts[0].IPv6Prefix), nil
	}
	k = keyRef{start: len(s.key), parts: len(parts)}
	for i := range s.values {
		if v := &s.values[i]; v.addr.IsValid() {
			s.key = append(s.key, 0)
			at := len(s.key)
			s.key = appendAddress(s.key, v.addr, parts[i].IPv6Prefix)
			s.key[at-1] = byte(len(s.key) - at) // shorter than 128, so the length is one byte
		} else {
			s.key = sluice.AppendKeyPart(s.key, v.text)
		}
	}
	if lacking {
		s.key = s.appendLacking(s.key)
		k.parts, k.lacking = k.parts+1, true
	}
	k.end = len(s.key)
	return k, nil
}

// appendLacking appends the part that lists the missing parts.
func (s *scratch) appendLacking(dst []byte) []byte {
	var text [64]byte
	which := append(text[:0], "missing"...)
	for i := range s.values {
		if !s.values[i].ok {
			which = strconv.AppendInt(append(which, ' '), int64(i+1), 10)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(which)))
	return append(dst, which...)
}

// addressKey returns the key of an address: a new key, or the key that was made before.
func (s *scratch) addressKey(addr netip.Addr, prefix int) keyRef {
	if s.address.end > s.address.start && s.addressPrefix == prefix {
		return s.address
	}
	k := keyRef{start: len(s.key), parts: 1}
	s.key = appendAddress(s.key, addr, prefix)
	k.end = len(s.key)
	s.address, s.addressPrefix = k, prefix
	return k
}

// appendAddress appends an address for a key: the same text for all spellings, and for all IPv6
// addresses of a prefix.
func appendAddress(dst []byte, addr netip.Addr, prefix int) []byte {
	addr = addr.Unmap().WithZone("")
	if addr.Is4() || prefix == 128 {
		return addr.AppendTo(dst)
	}
	p, _ := addr.Prefix(prefix) // fails only for a prefix out of bounds
	return p.AppendTo(dst)
}

// valueFrom reads the value of a part from a text of a RuleRequest. If it cannot, it returns why.
func (r *rule) valueFrom(p *Part, text string, paths Paths) (v partValue, f fault) {
	v = partValue{text: text, ok: text != "" || p.Source == FromDescriptor}
	if !v.ok {
		return v, f
	}
	switch p.Source {
	case FromHeader, FromCookie, FromQuery:
		v.text, _ = cleanValue(p.Source, p.Name, text)
		if p.Source == FromHeader && isCredentials(p.Name) {
			v.text = keyOfCredentials(v.text)
		}
		v.ok = v.text != ""
	case FromClientIP:
		address, _, _ := strings.Cut(text, "/")
		addr, err := netip.ParseAddr(address)
		if err != nil {
			return v, fault{"is not an address", "give one such as 192.0.2.7"}
		}
		v.text, v.addr = "", addr
	case FromPath:
		v.text = paths.Clean(text)
	case FromParam:
		v.text = paths.Clean("/" + strings.ReplaceAll(text, "/", "%2F"))[1:]
		v.ok = v.text != ""
	case FromHost:
		if CheckHost(text) != nil && !isAddress(text) {
			return v, fault{"is not a host", "give one such as api.example.com"}
		}
		v.text = CleanHost(text)
		v.ok = v.text != ""
	case FromMethod:
		if f := checkMethod(text); f != (fault{}) && text != OtherMethod {
			return v, f
		}
		v.text = r.methodOf(text)
	}
	return v, f
}
