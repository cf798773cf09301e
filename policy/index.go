package policy

import (
	"slices"
	"strings"

	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// patternID identifies a pattern of a rule by the numbers of both.
type patternID uint64

func newPatternID(rule, pattern int) patternID { return patternID(rule)<<32 | patternID(pattern) }

func (id patternID) rule() int    { return int(id >> 32) }
func (id patternID) pattern() int { return int(id & 0xffffffff) }

// index finds the rules whose host and path match, without looking at the others. It is a trie of path
// segments for each host. It does not check methods, values and other conditions; see matcher.matches.
type index struct {
	exact map[string]*node // by host
	below map[string]*node // by the end of the host, from its dot
	any   *node
	// longest is the length of the longest key of below. Nothing longer is looked up, so a long host
	// costs no more than a short one.
	longest int
}

// node is a position in the trie: the patterns that begin with the same segments.
type node struct {
	next  map[string]*node
	one   *node         // for "*"
	here  leaf          // patterns that end here
	depth leaf          // patterns that end with "**" here
	deep  []deepPattern // patterns that go on after "**"
}

type deepPattern struct {
	id       patternID
	segments []patterns.Segment // from the "**"
}

// leaf holds patterns. A pattern that needs one of several exact values of a header, cookie, parameter or
// attribute is found by that value.
type leaf struct {
	plain   []patternID
	byValue []valueLeaf
}

type valueLeaf struct {
	source Source
	name   string
	values map[string][]patternID
}

func (ix *index) add(id patternID, p *patterns.Pattern, m *matcher) {
	if len(m.hosts) == 0 {
		if ix.any == nil {
			ix.any = &node{}
		}
		ix.any.add(id, p.Segments, m)
	}
	for _, h := range m.hosts {
		table, key := &ix.exact, h
		if rest, ok := strings.CutPrefix(h, "*"); ok {
			table, key = &ix.below, rest
			ix.longest = max(ix.longest, len(rest))
		}
		if *table == nil {
			*table = map[string]*node{}
		}
		n := (*table)[key]
		if n == nil {
			n = &node{}
			(*table)[key] = n
		}
		n.add(id, p.Segments, m)
	}
}

func (n *node) add(id patternID, segments []patterns.Segment, m *matcher) {
	for i, s := range segments {
		switch s.Kind {
		case patterns.AnyDepth:
			if i == len(segments)-1 {
				n.depth.add(id, m)
			} else {
				n.deep = append(n.deep, deepPattern{id, segments[i:]})
			}
			return
		case patterns.AnyOne:
			if n.one == nil {
				n.one = &node{}
			}
			n = n.one
		default:
			if n.next == nil {
				n.next = map[string]*node{}
			}
			c := n.next[s.Text]
			if c == nil {
				c = &node{}
				n.next[s.Text] = c
			}
			n = c
		}
	}
	n.here.add(id, m)
}

func (l *leaf) add(id patternID, m *matcher) {
	i := slices.IndexFunc(m.values, func(v valueMatcher) bool { return v.exact() })
	if i < 0 {
		l.plain = append(l.plain, id)
		return
	}
	v := &m.values[i]
	j := slices.IndexFunc(l.byValue, func(t valueLeaf) bool { return t.source == v.source && t.name == v.Name })
	if j < 0 {
		j = len(l.byValue)
		l.byValue = append(l.byValue, valueLeaf{v.source, v.Name, map[string][]patternID{}})
	}
	for _, text := range v.OneOf {
		l.byValue[j].values[text] = append(l.byValue[j].values[text], id)
	}
}

// find appends the patterns that match a request's host and a path, in the order of the rules. Each rule
// is found once, by its first matching pattern.
func (ix *index) find(a *Attributes, path string, found []patternID) []patternID {
	if path == "/" {
		path = ""
	}
	if n := ix.exact[a.Host]; n != nil {
		found = n.find(a, path, found)
	}
	if ix.below != nil {
		for i := max(1, len(a.Host)-ix.longest); i < len(a.Host); i++ {
			if a.Host[i] == '.' {
				if n := ix.below[a.Host[i:]]; n != nil {
					found = n.find(a, path, found)
				}
			}
		}
	}
	if ix.any != nil {
		found = ix.any.find(a, path, found)
	}
	if len(found) < 2 {
		return found
	}
	slices.Sort(found)
	return slices.CompactFunc(found, func(a, b patternID) bool { return a.rule() == b.rule() })
}

func (n *node) find(a *Attributes, path string, found []patternID) []patternID {
	found = n.depth.find(a, found)
	for i := range n.deep {
		if patterns.Match(n.deep[i].segments, path) {
			found = append(found, n.deep[i].id)
		}
	}
	if path == "" {
		return n.here.find(a, found)
	}
	if n.next == nil && n.one == nil {
		return found
	}
	text, rest := patterns.Cut(path)
	if c := n.next[text]; c != nil {
		found = c.find(a, rest, found)
	}
	if n.one != nil {
		found = n.one.find(a, rest, found)
	}
	return found
}

func (l *leaf) find(a *Attributes, found []patternID) []patternID {
	found = append(found, l.plain...)
	for i := range l.byValue {
		t := &l.byValue[i]
		switch r := a.Read(t.source, t.name); r.Count {
		case CountNone:
		case CountOne:
			found = append(found, t.values[r.First]...)
		default:
			all, certain := a.readAll(t.source, t.name)
			if !certain {
				for _, ids := range t.values {
					found = append(found, ids...)
				}
				continue
			}
			for _, v := range all {
				found = append(found, t.values[v]...)
			}
		}
	}
	return found
}
