package expression

import (
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// methods are the registered methods, and common methods of caches and proxies.
var methods = strings.Fields(`GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE QUERY
	ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE
	MOVE ORDERPATCH PRI PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF
	VERSION-CONTROL PURGE BAN REFRESH NOTIFY SUBSCRIBE UNSUBSCRIBE M-SEARCH SOURCE`)

// MethodMeant returns the usual method that an unknown one probably means, or "".
func MethodMeant(method string) string {
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

// IsMethod reports whether a standard, or a common cache or proxy, has a method.
func IsMethod(method string) bool { return slices.Contains(methods, method) }
