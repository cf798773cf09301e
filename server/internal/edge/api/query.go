package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// mostListed bounds lists, and defaultListed is their length if the caller gives none.
const (
	mostListed    = 1000
	defaultListed = 100
)

// parameters reads the query of a call. Each parameter may be there once, and key for each value of a rule's key.
func parameters(r *http.Request, known ...string) (url.Values, *problem) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("?", "The parameters cannot be read.", "escape them, as in ?rule=per-user&key=ann%20lee")
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return nil, invalid("?"+name, fmt.Sprintf("There is no parameter %.64q.", name), "the parameters are "+strings.Join(known[:len(known)-1], ", ")+" and "+known[len(known)-1])
		}
		if len(given) > 1 && name != "key" {
			return nil, invalid("?"+name, fmt.Sprintf("The parameter %q is there several times.", name), "give it once")
		}
	}
	return values, nil
}

// lengthOf reads how many entries of a list the caller wants.
func lengthOf(values url.Values) (int, *problem) {
	text := values.Get("most")
	if text == "" {
		return defaultListed, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostListed {
		return 0, invalid("?most", fmt.Sprintf(`"most" is %.32q.`, text), fmt.Sprintf("give a number from 1 to %d, or leave it out for %d", mostListed, defaultListed))
	}
	return n, nil
}

// inQuery makes a problem of a field the problem of a parameter.
func inQuery(p *problem) *problem {
	p.Field = "?" + p.Field
	return p
}
