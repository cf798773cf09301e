package servers

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A scenario is what the comments of an example promise, in lines that begin with "#>":
//
//	#> 5 x GET /orders | from 192.0.2.1 -> 200
//	#> GET /orders | from 192.0.2.1 -> 429 | Retry-After: 12 | says too many
//	#> at once 3 x GET /report | upstream takes 300ms -> 2 x 200, 1 x 429
//	#> wait 1s
//	#> figure sluice_decisions_total{rule="a"} is 3
//	#> ops receives "state":"above"
//
// Before the arrow is what the client does: the header fields that it sends, "from" an address,
// in which {n} is another number for each request, with a "token" of such claims, with a "body"
// of so many bytes, or with the JSON that it "calls" a language model with; and what the service behind does: its status, a field that it "sends", how
// long it "takes", how many "bytes" it sends, how many tokens its model "writes". Behind the arrow are the statuses that the client
// gets, fields of the answer, what its body "says", which fields the service "gets", who
// answers ("by"), and how long all of the step "lasts".
type step struct {
	text    string
	line    int
	atOnce  bool
	times   int
	method  string
	path    string
	header  map[string]string
	from    string
	body    int
	call    string // of a language model, in JSON
	orders  orders
	want    map[int]int // how many of each status
	answer  [][2]string // fields of the answer; of no value: not there
	says    []string
	gets    [][2]string // fields that the service gets; of no value: not there
	by      string
	atLeast time.Duration
	atMost  time.Duration
	wait    time.Duration
	figure  [2]string
	message [2]string // the service that gets it, and its text
}

// orders are what the service behind does. They go through the server in a field of their own.
type orders struct {
	ID     string            `json:"id"`
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Takes  time.Duration     `json:"takes"`
	Bytes  int               `json:"bytes"`
	Writes int               `json:"writes"`
}

var (
	timesOf    = regexp.MustCompile(`^(\d+) x (.*)$`)
	figureStep = regexp.MustCompile(`^figure (\S+) is (\S+)$`)
	lasting    = regexp.MustCompile(`^lasts (\S+) to (\S+)$`)
)

// scenario reads the steps of an example.
func scenario(t *testing.T, name, text string) (steps []step) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), "#> ")
		if !found {
			continue
		}
		s, err := parseStep(rest)
		if err != nil {
			t.Fatalf("%s:%d: %q is not a step: %v", name, i+1, rest, err)
		}
		s.line = i + 1
		steps = append(steps, s)
	}
	if len(steps) == 0 {
		t.Fatalf("%s promises nothing", name)
	}
	return steps
}

func parseStep(text string) (s step, err error) {
	s = step{text: text, times: 1, header: map[string]string{}, want: map[int]int{}}
	s.orders.Header = map[string]string{}
	if after, found := strings.CutPrefix(text, "wait "); found {
		s.wait, err = time.ParseDuration(after)
		return s, err
	}
	if m := figureStep.FindStringSubmatch(text); m != nil {
		s.figure = [2]string{m[1], m[2]}
		return s, nil
	}
	if who, what, found := strings.Cut(text, " receives "); found {
		s.message = [2]string{who, what}
		return s, nil
	}
	before, after, found := strings.Cut(text, " -> ")
	if !found {
		return s, fmt.Errorf("has no arrow")
	}
	asks := strings.Split(before, " | ")
	asks[0], s.atOnce = strings.CutPrefix(asks[0], "at once ")
	if m := timesOf.FindStringSubmatch(asks[0]); m != nil {
		s.times, _ = strconv.Atoi(m[1])
		asks[0] = m[2]
	}
	if s.method, s.path, found = strings.Cut(asks[0], " "); !found {
		return s, fmt.Errorf("has no path")
	}
	for _, ask := range asks[1:] {
		if err := s.parseOrder(strings.TrimSpace(ask)); err != nil {
			return s, err
		}
	}
	checks := strings.Split(after, " | ")
	for _, status := range strings.Split(checks[0], ", ") {
		n := s.times
		if m := timesOf.FindStringSubmatch(status); m != nil {
			n, _ = strconv.Atoi(m[1])
			status = m[2]
		}
		code, err := strconv.Atoi(strings.TrimSpace(status))
		if err != nil {
			return s, err
		}
		s.want[code] += n
	}
	for _, check := range checks[1:] {
		if err := s.check(strings.TrimSpace(check)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// parseOrder reads what the client or the service does.
func (s *step) parseOrder(text string) (err error) {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "from":
		s.from = rest
	case "body":
		s.body, err = strconv.Atoi(strings.TrimSuffix(rest, " bytes"))
	case "calls":
		s.call = rest
	case "token":
		part := base64.RawURLEncoding.EncodeToString
		s.header["Authorization"] = "Bearer " + part([]byte(`{"alg":"none"}`)) + "." + part([]byte(rest)) + ".c2ln"
	case "upstream":
		word, rest, _ = strings.Cut(rest, " ")
		switch word {
		case "sends":
			name, value, _ := strings.Cut(rest, ": ")
			s.orders.Header[name] = value
		case "takes":
			s.orders.Takes, err = time.ParseDuration(rest)
		case "writes":
			s.orders.Writes, err = strconv.Atoi(strings.TrimSuffix(rest, " tokens"))
		case "bytes":
			s.orders.Bytes, err = strconv.Atoi(rest)
		default:
			s.orders.Status, err = strconv.Atoi(word)
		}
	default:
		name, value, found := strings.Cut(text, ": ")
		if !found {
			return fmt.Errorf("%q is not an order", text)
		}
		s.header[name] = value
	}
	return err
}

// check reads what the client or the service gets.
func (s *step) check(text string) (err error) {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "says":
		s.says = append(s.says, rest)
	case "by":
		s.by = rest
	case "no":
		s.answer = append(s.answer, [2]string{rest, ""})
	case "gets":
		if name, found := strings.CutPrefix(rest, "no "); found {
			s.gets = append(s.gets, [2]string{name, ""})
			return nil
		}
		name, value, _ := strings.Cut(rest, ": ")
		s.gets = append(s.gets, [2]string{name, value})
	case "lasts":
		m := lasting.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("%q does not say how long", text)
		}
		if s.atLeast, err = time.ParseDuration(m[1]); err == nil {
			s.atMost, err = time.ParseDuration(m[2])
		}
	default:
		name, value, found := strings.Cut(text, ": ")
		if !found {
			return fmt.Errorf("%q is nothing to check", text)
		}
		s.answer = append(s.answer, [2]string{name, value})
	}
	return err
}
