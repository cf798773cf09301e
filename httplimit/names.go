package httplimit

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/policy"
)

// names are the parameters or cookies that a policy reads, as a tree of their bytes. So one pass over a request finds
// the values of all of them.
type names struct {
	all   []string
	index map[string]int
	tree  []nameNode // the first is the root
	first [256]int32 // the children of the root
}

// nameNode is a byte of names. Bytes that services confuse are one byte.
type nameNode struct {
	c              byte
	child, sibling int32 // 0 for none
	ends           []int // the names that end here
}

// newNames makes the tree of names. Names with bytes that an escaped name has otherwise, or that are cut off, are left out.
func newNames(all []string) *names {
	n := &names{index: map[string]int{}, tree: make([]nameNode, 1)}
	for _, name := range all {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' || r == '+' }) {
			continue
		}
		at := int32(0)
		for i := range len(name) {
			at = n.grow(at, plainByte(name[i]))
		}
		n.tree[at].ends = append(n.tree[at].ends, len(n.all))
		n.index[name] = len(n.all)
		n.all = append(n.all, name)
	}
	for at := n.tree[0].child; at != 0; at = n.tree[at].sibling {
		n.first[n.tree[at].c] = at
	}
	return n
}

// grow returns the child of a node for a byte, and adds it if necessary.
func (n *names) grow(at int32, c byte) int32 {
	if child := n.next(at, c); child != 0 {
		return child
	}
	n.tree = append(n.tree, nameNode{c: c, sibling: n.tree[at].child})
	n.tree[at].child = int32(len(n.tree) - 1)
	return n.tree[at].child
}

// next returns the child of a node for a byte, 0 for none.
func (n *names) next(at int32, c byte) int32 {
	for at = n.tree[at].child; at != 0 && n.tree[at].c != c; {
		at = n.tree[at].sibling
	}
	return at
}

// appendFound appends the names that a text begins with.
func (n *names) appendFound(found []int, text string) []int {
	if text == "" {
		return found
	}
	at := n.first[plainByte(text[0])]
	for i := 1; at != 0; i++ {
		found = append(found, n.tree[at].ends...)
		if i == len(text) {
			break
		}
		at = n.next(at, plainByte(text[i]))
	}
	return found
}

// longFrom is the size from which on the query and cookies of a request are long.
const longFrom = 1 << 10

// readNames are the names that a policy reads.
type readNames struct{ query, cookies *names }

// namesOf returns the names that a policy reads.
func namesOf(p *policy.Policy) readNames {
	return readNames{newNames(p.ReadNames(policy.FromQuery)), newNames(p.ReadNames(policy.FromCookie))}
}

// isFew reports whether the policy reads at most one parameter and one cookie.
func (n *readNames) isFew() bool { return len(n.query.all) <= 1 && len(n.cookies.all) <= 1 }

// isLong reports whether the query or the cookies of a request are long.
func isLong(r *http.Request) bool {
	size := 0
	if r.URL != nil {
		size = len(r.URL.RawQuery)
	}
	for _, line := range r.Header["Cookie"] {
		size += len(line)
	}
	return size >= longFrom
}

// Described returns the values of a query and of the lines of a Cookie header, as a Decider with a policy reads them:
// for all names of the policy at once if they are long.
func Described(query string, cookies []string, p *policy.Policy) policy.RepeatableValues {
	r := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{"Cookie": cookies}}
	if isLong(r) {
		if n := namesOf(p); !n.isFew() {
			return &longValues{reportedValues: reportedValues{ownValues{values: values{r}}, nil}, names: &n}
		}
	}
	return values{r}
}

// longValues are the values of a request with a long query or long cookies. They are read once for all names, because
// clients can send what takes long to read. It is not safe for concurrent use.
type longValues struct {
	reportedValues
	names          *readNames
	query, cookies *longTally
}

// longTally has the values of all names.
type longTally struct {
	of  []tally
	all [][]string
}

var _ policy.RepeatableValues = (*longValues)(nil)

// newTally returns a tally of a number of names.
func newTally(n int) *longTally {
	t := &longTally{of: make([]tally, n), all: make([][]string, n)}
	for i := range t.of {
		t.of[i].all = &t.all[i]
	}
	return t
}

// tally returns the values of the names of a source, nil if the name is not among them.
func (v *longValues) tally(s policy.Source, name string) (t *longTally, index int) {
	n, kept, read := v.names.query, &v.query, v.readQueries
	switch s {
	case policy.FromQuery:
	case policy.FromCookie:
		n, kept, read = v.names.cookies, &v.cookies, v.readCookies
	default:
		return nil, 0
	}
	index, known := n.index[name]
	if !known {
		return nil, 0
	}
	if *kept == nil {
		*kept = newTally(len(n.all))
		read(n, (*kept).of)
	}
	return *kept, index
}

// Read returns the first and the last value of a name, and how often the request has it.
func (v *longValues) Read(s policy.Source, name string) policy.Found {
	if t, i := v.tally(s, name); t != nil {
		return t.of[i].result()
	}
	return v.reportedValues.Read(s, name)
}

// ReadAll returns all values of a name.
func (v *longValues) ReadAll(s policy.Source, name string) []string {
	if t, i := v.tally(s, name); t != nil {
		return slices.Clone(t.all[i])
	}
	return v.reportedValues.ReadAll(s, name)
}

// readQueries is readQuery for all names.
func (v *longValues) readQueries(n *names, of []tally) {
	if v.r.URL == nil {
		return
	}
	var found []int
	add := func(pair string, unclear bool) {
		key, value, _ := strings.Cut(pair, "=")
		decoded, valid := nameOf(key)
		found = n.appendFound(found[:0], strings.TrimLeft(decoded, " "))
		for _, i := range found {
			of[i].addParameter(decoded, value, n.all[i], unclear || !valid)
		}
	}
	eachPair(v.r.URL.RawQuery, add)
}

// readCookies is readCookie for all names.
func (v *longValues) readCookies(n *names, of []tally) {
	var found []int
	for _, line := range v.r.Header["Cookie"] {
		for line != "" {
			var piece string
			piece, line, _ = strings.Cut(line, ";")
			piece = strings.TrimRight(piece, " \t")
			key, value, _ := strings.Cut(piece, "=")
			key = strings.Trim(key, " \t")
			found = n.appendFound(found[:0], bare(key))
			for _, i := range found {
				of[i].addNamed(key, value, n.all[i])
			}
			start := len(piece) - len(strings.TrimLeft(piece, " \t"))
			for at := len(piece) - 1; at >= start; at-- {
				if strings.IndexByte(separators, piece[at]) < 0 {
					continue
				}
				found = n.appendFound(found[:0], piece[at+1:])
				for _, i := range found {
					of[i].addAt(piece[at+1:], n.all[i])
				}
			}
		}
	}
}
