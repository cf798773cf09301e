package httplimit

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/policy"
)

// readQuery reads a parameter of the query. It adds all values to all, unless all is nil.
//
// Services disagree about semicolons, escapes that are none, and names such as "k[]". A value that only
// some of them read makes the result unclear.
func (v values) readQuery(name string, all *[]string) policy.Found {
	if v.r.URL == nil || v.r.URL.RawQuery == "" {
		return policy.Found{}
	}
	t := tally{all: all}
	eachPair(v.r.URL.RawQuery, func(pair string, unclear bool) { t.addPair(pair, name, unclear) })
	return t.result()
}

// eachPair calls add for each pair of a query. A pair is unclear if not all services split the query there.
func eachPair(query string, add func(pair string, unclear bool)) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if strings.IndexByte(pair, ';') < 0 {
			add(pair, false)
			continue
		}
		// The whole pair for services that split at & only, and each piece for the others.
		add(pair, true)
		for piece := range strings.SplitSeq(pair, ";") {
			add(piece, true)
		}
	}
}

// addPair adds the value of a pair if it has the name.
func (t *tally) addPair(pair, name string, unclear bool) {
	key, value, _ := strings.Cut(pair, "=")
	valid := true
	if key != name {
		key, valid = nameOf(key)
	}
	t.addParameter(key, value, name, unclear || !valid)
}

// addParameter adds the value of a parameter, whose own name is decoded, if it has the name.
func (t *tally) addParameter(own, value, name string, unclear bool) {
	if own != name {
		if !isSameName(own, name) {
			return
		}
		unclear = true
	}
	text, err := url.QueryUnescape(value)
	if err != nil {
		text, unclear = unescapeRest(value), true
	}
	t.add(text, unclear)
}

// unescapeRest decodes a value with percent signs that begin no escape. They stay, as most services read them.
func unescapeRest(value string) string {
	var valid strings.Builder
	for i := range len(value) {
		valid.WriteByte(value[i])
		if value[i] != '%' {
			continue
		}
		if _, err := strconv.ParseUint(value[i+1:min(i+3, len(value))], 16, 8); err != nil || i+3 > len(value) {
			valid.WriteString("25")
		}
	}
	text, _ := url.QueryUnescape(valid.String()) // all escapes are valid
	return text
}

// nameOf decodes the name of a parameter. ok is false if it cannot be decoded.
func nameOf(key string) (name string, ok bool) {
	if strings.IndexByte(key, '%') < 0 && strings.IndexByte(key, '+') < 0 {
		return key, true
	}
	name, err := url.QueryUnescape(key)
	if err != nil {
		return key, false
	}
	return name, true
}
