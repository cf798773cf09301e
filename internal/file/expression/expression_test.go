package expression

import (
	"errors"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// named are the named parts of a request.
type named map[string]string

func (p named) get(name string) (string, bool) { v, ok := p[name]; return v, ok }

func (p named) Header(name string) (string, bool)    { return p.get("header:" + name) }
func (p named) Cookie(name string) (string, bool)    { return p.get("cookie:" + name) }
func (p named) Query(name string) (string, bool)     { return p.get("query:" + name) }
func (p named) Claim(name string) (string, bool)     { return p.get("claim:" + name) }
func (p named) Attribute(name string) (string, bool) { return p.get("attribute:" + name) }

// nameless has none of the parts that only some edges know.
type nameless struct{ policy.Values }

func someRequest() *policy.Attributes {
	return &policy.Attributes{
		Method: "POST", Host: "api.example.com", Path: "/orders/17", ClientIP: netip.MustParseAddr("192.0.2.7"), RequestBytes: 2048,
		Values: named{"header:X-Plan": "free", "header:X-Items": "12", "cookie:session": "s", "query:debug": "1", "claim:sub": "ann", "attribute:tenant": "acme"},
	}
}

// TestConditionsOfOneRequest evaluates conditions on one request.
func TestConditionsOfOneRequest(t *testing.T) {
	state := condition.State{Class: "bulk", Marked: true, Pressure: func(rule string) float64 { return map[string]float64{"api": 1.5}[rule] }}
	for text, want := range map[string]bool{
		`method == "POST" and header("x-plan") in ["free", "trial"]`:  true,
		`method == "GET" || host endsWith ".example.com"`:             true,
		`path startsWith "/orders/" && path matches "/[0-9]+$"`:       true,
		`path matches "^/users"`:                                      false,
		`header("X-Missing") == "" and cookie("session") == "s"`:      true,
		`query("debug") == "1" and claim("sub") == "ann"`:             true,
		`attribute("tenant") contains "cm"`:                           true,
		`client_ip == "192.0.2.7"`:                                    true,
		`in_network("192.0.2.0/24") and not in_network("10.0.0.0/8")`: true,
		`in_network("::ffff:192.0.2.0/120")`:                          true,
		`in_network("2001:db8::/32")`:                                 false,
		`request_bytes > 1000 and number(header("X-Items")) >= 12`:    true,
		`number("x") == 0 and number("99999999999999999999") > 1000`:  true,
		`class == "bulk" and marked and pressure("api") > 1`:          true,
		`pressure("other") > 0`:                                       false,
		`len(path) > 5 and lower(method) == "post"`:                   true,
		`1 / number(header("X-Missing")) > 0`:                         true, // a division of floats
		`1 % number(header("X-Missing")) == 0`:                        true, // it may match, because nothing can be computed
		`not (1 % number(header("X-Missing")) == 0)`:                  true,
		`max(1, number(header("X-Items"))) == 12 ? true : false`:      true,
	} {
		e, err := Parse(text)
		if err != nil {
			t.Errorf("%s was refused: %v", text, err)
			continue
		}
		if got := e.MatchesState(someRequest(), state); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
}

// Without a state there is no class, mark or pressure. Without values every value is missing.
func TestExpressionWithout(t *testing.T) {
	e, err := Parse(`class == "" and not marked and pressure("a") == 0 and client_ip == "" and not in_network("0.0.0.0/0") and header("A") + cookie("A") + query("A") + claim("A") + attribute("A") == ""`)
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []policy.Values{nil, nameless{named{}}} {
		if !e.Matches(&policy.Attributes{Values: values}) {
			t.Errorf("not of a request with the values %v", values)
		}
	}
	if marks, rules := e.Uses(); !marks || !slices.Equal(rules, []string{"a"}) {
		t.Errorf("Uses = %v, %v", marks, rules)
	}
	if e, err = Parse("marked"); err != nil || !e.Matches(&policy.Attributes{Marked: true}) {
		t.Errorf("a marked request is not marked: %v", err)
	}
}

// TestLargeRequests: a body of more bytes than an int of 32 bits counts is not small.
func TestLargeRequests(t *testing.T) {
	e, err := Parse("request_bytes > 1000")
	if err != nil {
		t.Fatal(err)
	}
	if !e.Matches(&policy.Attributes{RequestBytes: 1<<32 + 5}) {
		t.Error("a body of 4 GiB has less than 1,001 bytes")
	}
}

// A condition on a body of unknown size is uncertain if it depends on the size: a rule with it applies, and an exception does not.
func TestUnknownSizes(t *testing.T) {
	for text, want := range map[string][2]bool{ // matches and certain
		`request_bytes > 1000`:                      {false, false},
		`request_bytes <= 1000`:                     {true, false},
		`request_bytes < 0`:                         {true, false},
		`not (request_bytes > 1000)`:                {true, false},
		`request_bytes > 1000 and method == "POST"`: {false, false},
		`request_bytes > 1000 and method == "PUT"`:  {false, true},
		`request_bytes > 1000 or path == "/"`:       {true, true},
		`100 % (request_bytes + 1) == 0`:            {false, false},
		`method == "POST"`:                          {true, true},
	} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		a := &policy.Attributes{Method: "POST", Path: "/", RequestBytes: -1}
		matches, certain := e.MatchesCertainly(a, condition.State{})
		if certain != want[1] || certain && matches != want[0] {
			t.Errorf("%s: matches %t, certain %t", text, matches, certain)
		}
		if a.RequestBytes = 0; e.size {
			if _, certain := e.MatchesCertainly(a, condition.State{}); !certain {
				t.Errorf("%s is uncertain for a body of a known size", text)
			}
		}
	}
}

// Texts in which services read the same number are that number. Other texts make a condition uncertain.
func TestNumbersAreReadAsServicesRead(t *testing.T) {
	for _, c := range []struct {
		text    string
		want    int
		certain bool
	}{
		{"7", 7, true},
		{"+7", 7, true},
		{"-7", -7, true},
		{"7.0", 7, true},
		{"7.", 7, true},
		{"+7.000", 7, true},
		{" 7\t", 7, true},
		{"007", 7, true},
		{"0", 0, true},
		{"-0", 0, true},
		{"", 0, true},
		{"x", 0, true},
		{"x7", 0, true},
		{"-", 0, true},
		{"--7", 0, true},
		{"+-7", 0, true},
		{".", 0, true},
		{"1999999999", 1999999999, true},
		{strconv.Itoa(math.MaxInt - 1), math.MaxInt - 1, true},
		{strconv.Itoa(math.MaxInt), math.MaxInt, true},
		{"9223372036854775808", math.MaxInt, true},
		{"12345678901234567890", math.MaxInt, true},
		{"-12345678901234567890", -math.MaxInt, true},
		{"00000000000000000000007", 7, true},
		{"7.5", 7, false},
		{"7abc", 7, false},
		{"1e3", 1, false},
		{"1_000", 1, false},
		{"0x10", 0, false},
		{".5", 0, false},
		{"7,0", 7, false},
		{"7 8", 7, false},
		{"\uff17", 0, false},
		{"Infinity", 0, false},
		{"-inf", 0, false},
	} {
		if n, certain := number(c.text); n != c.want || certain != c.certain {
			t.Errorf("number(%q) = %d, %v", c.text, n, certain)
		}
	}
}

// repeated are values on several lines.
type repeated map[string][]string

func (p repeated) Header(name string) (string, bool) { return p[name][0], true }
func (p repeated) Cookie(name string) (string, bool) { return p[name][0], true }
func (p repeated) Query(name string) (string, bool)  { return p[name][0], true }

func (p repeated) Read(_ policy.Source, name string) (r policy.Found) {
	if all := p[name]; len(all) > 0 {
		r = policy.Found{First: all[0], Last: all[len(all)-1], Count: policy.Count(min(len(all), 2))}
	}
	return r
}

func (p repeated) ReadAll(_ policy.Source, name string) []string { return p[name] }

// The result of an expression is certain if it used no value that services may read in different ways.
func TestExpressionOfRepeatedValues(t *testing.T) {
	a := &policy.Attributes{Method: "GET", Values: repeated{"X-Plan": {"pro", "free"}, "X-One": {"1"}, "X-Items": {"100.5"}, "plan": {"a", "b"}}}
	for _, c := range []struct {
		text             string
		matches, certain bool
	}{
		{`header("x-plan") == "free"`, false, false},
		{`header("x-plan") != "free"`, true, false},
		{`cookie("plan") == "b"`, false, false},
		{`query("plan") == "b"`, false, false},
		{`header("X-One") == "1" and header("X-None") == ""`, true, true},
		{`method == "POST" and header("x-plan") == "free"`, false, true},
		{`method == "GET" or header("x-plan") == "free"`, true, true},
		{`number(header("X-Items")) > 100`, false, false},
		{`number(header("X-One")) == 1`, true, true},
		{`class == "a"`, false, false},
		{`1 % number(header("X-None")) == 0`, false, false}, // cannot be computed
		{`["a", "b"][number(header("X-Items"))] == "c"`, false, false},
	} {
		e, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		matches, certain := e.MatchesCertainly(a, condition.State{ClassUnclear: true})
		if matches != c.matches || certain != c.certain || e.MatchesState(a, condition.State{ClassUnclear: true}) != (matches || !certain) {
			t.Errorf("%s: %v, certain %v", c.text, matches, certain)
		}
	}
	e, err := Parse(`header("x-a") == query("b") and cookie("c") == claim("d") and header("X-A") != attribute("e")`)
	if want := []source.Value{{Source: policy.FromHeader, Name: "X-A"}, {Source: policy.FromQuery, Name: "b"}, {Source: policy.FromCookie, Name: "c"}, {Source: policy.FromClaim, Name: "d"}}; err != nil || !slices.Equal(e.Reads(), want) {
		t.Errorf("Reads = %v, %v", e.Reads(), err)
	}
}

// Concurrent evaluations of one expression do not mix their requests.
func TestExpressionConcurrently(t *testing.T) {
	e, err := Parse(`header("X-User") == path and client_ip != "" and in_network("192.0.2.0/25")`)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 2000 {
				name := strings.Repeat("x", (g+i)%17+1)
				a := &policy.Attributes{Path: name, Values: named{"header:X-User": name}, ClientIP: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}
				if got, want := e.Matches(a), byte(i) < 128; got != want {
					t.Errorf("request %d: %v", i, got)
					return
				}
			}
		})
	}
	all.Wait()
}

// spent returns how long this process has used processors. Other programs on a busy machine do not change it.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The cost of an expression is bounded by its length and the size of the request.
func TestExpressionCost(t *testing.T) {
	long := strings.Repeat("a", 64<<10)
	a := &policy.Attributes{Path: long, Values: named{"header:A": long}}
	for _, text := range []string{
		`path matches "(a|aa)+$b"`, // would take for ever by backtracking
		`path matches "^((a*)*)*b"`,
		strings.Repeat(`header("A") + `, 100) + `"" == path`,
		strings.Repeat(`header("A") contains "b" or `, 60) + `false`,
		`lower(upper(lower(upper(header("A"))))) == "b"`,
	} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := spent(t)
		if e.Matches(a) {
			t.Errorf("%.40s matches", text)
		}
		runtime.ReadMemStats(&after)
		if took := spent(t) - began; took > 2*time.Second {
			t.Errorf("%.40s took %v of a processor", text, took)
		}
		// At most each operator copies what it has: a square of the nodes, times the request.
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<29 {
			t.Errorf("%.40s used %d bytes", text, used)
		}
	}
	for _, text := range []string{
		strings.Repeat("(", 3000) + "marked" + strings.Repeat(")", 1000),
		strings.Repeat("not ", 1000) + "marked",
		strings.Repeat("marked or ", 400) + "marked",
		`"a" * 5`,
		`[1, 2][5]`,
		"\x00",
		"\xff\xfe",
	} {
		var bad *Error
		if _, err := Parse(text); !errors.As(err, &bad) || bad.Line < 1 || bad.Column < 1 || bad.Error() == "" {
			t.Errorf("%.40q: the error is %v, want one with a position", text, err)
		}
	}
}

// FuzzExpression checks that a text is an expression or an error with a position. Neither parsing
// nor evaluation panics, blocks or changes the request.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		`method == "POST" and header("x-plan") in ["free", "trial"]`, `in_network("10.0.0.0/8")`, `path matches "^/a"`, `marked ? true : pressure("a") > 1`,
		`let x = 1; x > 0`, `$env`, `all([1], # > 0)`, `path[1:2] == "a"`, `{"a": 1}.a == 1`, `path | lower() == ""`, `if marked { true } else { false }`,
		`nil ?? marked`, `path?.x`, `1 in 1..3`, `not not marked`, "path ==\n\t`raw`", `"\u00e4" == path // comment`,
	} {
		f.Add(text)
	}
	a := someRequest()
	want := *a
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			var bad *Error
			if !errors.As(err, &bad) || bad.Line < 1 || bad.Column < 1 || bad.Problem == "" {
				t.Fatalf("%q: the error is %v, want one with a position", text, err)
			}
			return
		}
		first := e.Matches(a)
		if again := e.Matches(a); again != first {
			t.Errorf("%q is %v and then %v", text, first, again)
		}
		if a.Method != want.Method || a.Path != want.Path || a.Host != want.Host || a.ClientIP != want.ClientIP {
			t.Errorf("%q changed the request", text)
		}
	})
}

func BenchmarkExpression(b *testing.B) {
	for name, text := range map[string]string{
		"method":  `method == "POST"`,
		"header":  `header("X-Plan") in ["free", "trial"]`,
		"network": `in_network("192.0.2.0/24")`,
		"several": `method == "POST" and path startsWith "/orders" and header("X-Plan") == "free" and not in_network("10.0.0.0/8")`,
	} {
		b.Run(name, func(b *testing.B) {
			e, err := Parse(text)
			if err != nil {
				b.Fatal(err)
			}
			a := someRequest()
			b.ReportAllocs()
			for b.Loop() {
				if !e.Matches(a) {
					b.Fatal("does not match")
				}
			}
		})
	}
}
