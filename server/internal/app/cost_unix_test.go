//go:build unix

package app

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// processor returns the processor time of this process, which other programs on the machine do not change much.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Deciding about the longest request that the server accepts takes little processor time, whatever its values and path.
func TestLongRequestsAreCheap(t *testing.T) {
	s := newRecorder(t)
	rules := ""
	for _, name := range strings.Fields("a b c d e f g h i j") {
		rules += `
  - {name: query-` + name + `, match: {query: {a: ` + name + `}}, key: [path, "query:a"], limit: {algorithm: token_bucket, rate: 1000/s}}
  - {name: cookie-` + name + `, match: {cookie: {a: ` + name + `}}, key: [path, "cookie:a"], limit: {algorithm: token_bucket, rate: 1000/s}}
  - {name: claim-` + name + `, key: "claim:sub", limit: {algorithm: token_bucket, rate: 1000/s}}
  - {name: class-` + name + `, match: {class: special}, key: path, limit: {algorithm: token_bucket, rate: 1000/s}}`
	}
	r := start(t, parse(t, free+"upstream: "+s.url+`
classes:
  - name: special
    match: {if: 'cookie("a") == "7" or query("a") == "7" or header("X-Long") contains "seven"'}
rules:`+rules+"\n"), nil)
	const (
		size     = 60_000
		most     = 200 * time.Millisecond // ten times what the longest takes
		variants = "/a//../%2e%2e/b%2f..%2f%5c../c%252f../%252e/x"
	)
	for what, request := range map[string][]string{
		"hidden cookies":           {"GET / HTTP/1.1", "Cookie: " + strings.Repeat(",a=%61", size/6)},
		"hidden behind spaces":     {"GET / HTTP/1.1", "Cookie: x" + strings.Repeat(" a=%61", size/6)},
		"hidden behind quotes":     {"GET / HTTP/1.1", "Cookie: x" + strings.Repeat(`"a=1`, size/4)},
		"cookies of path variants": {"GET " + variants + " HTTP/1.1", "Cookie: " + strings.Repeat(",a=%61", size/6)},
		"queries of path variants": {"GET " + variants + "?" + strings.Repeat("%&", size/2) + " HTTP/1.1"},
		"equal queries":            {"GET " + variants + "?" + strings.Repeat("a=a&", size/4) + " HTTP/1.1"},
		"tokens":                   {"GET / HTTP/1.1", "Authorization: " + strings.Repeat("ey.", size/3)},
		"tokens without an end":    {"GET / HTTP/1.1", "Authorization: " + strings.Repeat(" ey", size/3) + ".."},
		"headers of path variants": {"GET " + variants + " HTTP/1.1", "X-Long: " + strings.Repeat("seve", size/4)},
	} {
		before := processor(t)
		r.one(s, append(request, "Host: shop.example")...)
		if took := processor(t) - before; took > most {
			t.Errorf("%s: the request took %v of processor time, want %v at most", what, took, most)
		} else {
			t.Logf("%s: %v", what, took)
		}
	}
}
