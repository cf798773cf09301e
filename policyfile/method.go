package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// methods are the registered methods, and common methods of caches and proxies.
var methods = strings.Fields(`GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE QUERY
	ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE
	MOVE ORDERPATCH PRI PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF
	VERSION-CONTROL PURGE BAN REFRESH NOTIFY SUBSCRIBE UNSUBSCRIBE M-SEARCH SOURCE`)

// methodMeant returns the usual method that an unknown one probably means, or "".
func methodMeant(method string) string {
	if slices.Contains(methods, method) {
		return ""
	}
	for _, m := range methods[:10] {
		if strings.EqualFold(m, method) || len(method) > 2 && reader.Distance(method, m) == 1 {
			return m
		}
	}
	return ""
}

// checkMethods reports misspelt methods, which match no request.
func (m *Match) checkMethods(s *reader.Source, path string) {
	for i, method := range m.Method {
		if meant := methodMeant(method); meant != "" && !strings.EqualFold(meant, method) {
			s.Follow(fmt.Sprintf("%s.method[%d]", path, i), reader.Quote(method)+" is not a method that clients use", fmt.Sprintf("did you mean %q?", meant))
		}
	}
	for i := range m.Unless {
		m.Unless[i].checkMethods(s, fmt.Sprintf("%s.unless[%d]", path, i))
	}
}

// unknownMethods warns of methods that no standard has.
func (m *Match) unknownMethods(s *reader.Source, path string) {
	for i, method := range m.Method {
		if !slices.Contains(methods, method) {
			s.Follow(fmt.Sprintf("%s.method[%d]", path, i), reader.Quote(method)+" is not a registered method; the rule matches only clients that send exactly that", "give methods such as GET, POST or PUT, if that is not what you mean")
		}
	}
	for i := range m.Unless {
		m.Unless[i].unknownMethods(s, fmt.Sprintf("%s.unless[%d]", path, i))
	}
}
