package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
)

// item is a String in a structured List, with its parameters.
type item struct {
	name   string
	params map[string]string
}

// parseList parses a List of Strings by RFC 9651, section 4.2, and accepts nothing
// else.
func parseList(s string) ([]item, error) {
	var items []item
	for {
		it := item{params: make(map[string]string)}
		var err error
		if it.name, s, err = parseString(s); err != nil {
			return nil, err
		}
		for strings.HasPrefix(s, ";") {
			end := strings.IndexByte(s, '=')
			if end < 2 || strings.Trim(s[1:end], "abcdefghijklmnopqrstuvwxyz") != "" {
				return nil, errors.New("no parameter")
			}
			key := s[1:end]
			s = s[end+1:]
			if strings.HasPrefix(s, `"`) {
				if it.params[key], s, err = parseString(s); err != nil {
					return nil, err
				}
				continue
			}
			n := len(s) - len(strings.TrimLeft(s, "0123456789"))
			if n == 0 || n > 15 {
				return nil, fmt.Errorf("an integer of %d digits", n)
			}
			it.params[key], s = s[:n], s[n:]
		}
		items = append(items, it)
		if s == "" {
			return items, nil
		}
		if !strings.HasPrefix(s, ", ") {
			return nil, fmt.Errorf("%q after an item", s)
		}
		s = s[2:]
	}
}

func parseString(s string) (text, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errors.New("no string")
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", errors.New("a lone backslash")
			}
			b.WriteByte(s[i])
		case c < 0x20 || c > 0x7e:
			return "", "", fmt.Errorf("byte %#x", c)
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("no end")
}

// For any names and numbers of limits, the headers are structured fields with the
// decisions' values.
func FuzzStructuredFields(f *testing.F) {
	f.Add("burst", "daily", int64(100), int64(50), int64(30e9))
	f.Add("a\"b\\", "\r\n", int64(1)<<50, int64(1)<<62, int64(1)<<62)
	f.Add("é", "\x7f", int64(1), int64(0), int64(1))
	set, err := httplimit.NewHeaders(httplimit.HeaderOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string, count, remaining, wait int64) {
		a, err := sluice.NewLimit(first, sluice.FixedWindow{Rate: sluice.PerSecond(count)})
		if err != nil || remaining < 0 || wait < 0 || first == "" || second == "" {
			return
		}
		b := sluice.MustLimit(second, sluice.FixedWindow{Rate: sluice.PerMinute(7)})
		h := make(http.Header)
		set.Set(h, verdict(0,
			result(a, sluice.Decision{Limit: count, Remaining: remaining, RetryAfter: time.Duration(wait)}),
			result(b, sluice.Decision{Allowed: true, Limit: 7, Remaining: 7}),
		))
		policies, err := parseList(h.Get("RateLimit-Policy"))
		if err != nil {
			t.Fatalf("RateLimit-Policy %s is not a list: %v", h.Get("RateLimit-Policy"), err)
		}
		limits, err := parseList(h.Get("RateLimit"))
		if err != nil {
			t.Fatalf("RateLimit %s is not a list: %v", h.Get("RateLimit"), err)
		}
		if len(policies) != 2 || len(limits) != 1 || limits[0].name != policies[0].name {
			t.Fatalf("got %v and %v", policies, limits)
		}
		if plain := strings.Trim(first, "abcdefghijklmnopqrstuvwxyz\"\\ "); plain == "" && limits[0].name != first {
			t.Fatalf("the header calls %q %q", first, limits[0].name)
		}
		const most = 999_999_999_999_999
		if got, want := limits[0].params["r"], strconv.FormatInt(min(remaining, most), 10); got != want {
			t.Fatalf("r is %s; want %s", got, want)
		}
		if got, want := policies[0].params["q"], strconv.FormatInt(min(count, most), 10); got != want {
			t.Fatalf("q is %s; want %s", got, want)
		}
		seconds, there := limits[0].params["t"]
		if there != (wait > 0) || there && seconds != h.Get("Retry-After") {
			t.Fatalf("t is %q, Retry-After %q", seconds, h.Get("Retry-After"))
		}
	})
}
