package replay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// plain shows clients as they are.
func plain(client string) string { return client }

// replayed replays the text of a log.
func replayed(t *testing.T, o Options, format string, texts ...string) *Report {
	t.Helper()
	folder := t.TempDir()
	o.Logs.Format, o.Logs.Files = format, nil
	for i, text := range texts {
		name := filepath.Join(folder, fmt.Sprintf("%d.log", i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Logs.Files = append(o.Logs.Files, name)
	}
	if o.Names == nil {
		o.Names = plain
	}
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// rules returns a policy of rules.
func rules(r ...policy.Rule) *Policy {
	return &Policy{Name: "p", IPv6Prefix: 64, Options: policy.Options{Rules: r}}
}

// perClient returns a rule for each address.
func perClient(a sluice.Algorithm) policy.Rule {
	return policy.Rule{Name: "per-client", Key: []policy.Part{policy.ClientIP()}, Limits: []*sluice.Limit{sluice.MustLimit("", a)}}
}

// shortFormat has times, clients, targets and statuses.
const shortFormat = `nginx:$msec $remote_addr "$request" $status`

// With whole seconds, a client that is surely limited is limited by its exact times, and a client that surely is not is not.
func TestWholeSecondsAreBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 2))
	seen := map[string]int{}
	for range 400 {
		p := rules(perClient(sluice.TokenBucket{Rate: sluice.PerMinute(1 + random.Int64N(200)), Burst: 1 + random.Int64N(15)}))
		at := 1_800_000_000 + random.Float64()
		var times []float64
		for range 5 + random.IntN(40) {
			at += random.ExpFloat64() * random.Float64() * 2
			times = append(times, at)
		}
		var exact, whole strings.Builder
		for _, at := range times {
			fmt.Fprintf(&exact, "%.6f 192.0.2.1 \"GET / HTTP/1.1\" 200\n", at)
			fmt.Fprintf(&whole, "%d 192.0.2.1 \"GET / HTTP/1.1\" 200\n", int64(at))
		}
		truth := replayed(t, Options{Policy: p}, shortFormat, exact.String()).Clients
		blurred := replayed(t, Options{Policy: p}, shortFormat, whole.String()).Clients
		switch {
		case blurred.Surely == 1:
			seen["surely"]++
			if truth.Limited != 1 {
				t.Fatalf("the client is surely limited, and is not: %v", times)
			}
		case blurred.SurelyNot == 1:
			seen["surely not"]++
			if truth.Limited != 0 {
				t.Fatalf("the client is surely not limited, and is: %v", times)
			}
		default:
			seen["unclear"]++
		}
	}
	for _, what := range []string{"surely", "surely not", "unclear"} {
		if seen[what] < 20 {
			t.Errorf("%d clients are %s, which is too few to learn from: %v", seen[what], what, seen)
		}
	}
}

// The order of lines within --reorder, and how they are spread over files, changes nothing.
func TestOrderAndFilesChangeNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 3))
	for range 5 {
		var lines []string
		late := map[string]float64{} // when a line was written
		at := 1_800_000_000.0
		for range 3000 {
			at += 0.000_001 + random.ExpFloat64()*0.1
			lines = append(lines, fmt.Sprintf("%.6f 192.0.2.%d \"GET /%d HTTP/1.1\" 200\n", at, random.IntN(20), random.IntN(5)))
			late[lines[len(lines)-1]] = at + 9*random.Float64()
		}
		o := Options{Policy: rules(perClient(sluice.TokenBucket{Rate: sluice.PerMinute(20), Burst: 5})), Logs: logs.Options{Reorder: 10 * time.Second}}
		want := jsonOf(t, replayed(t, o, shortFormat, strings.Join(lines, "")))
		shuffled := slices.Clone(lines)
		slices.SortFunc(shuffled, func(a, b string) int { return cmp.Compare(late[a], late[b]) })
		if got := jsonOf(t, replayed(t, o, shortFormat, strings.Join(shuffled, ""))); got != want {
			t.Fatalf("a shuffled log has another report:\n%s", difference(got, want))
		}
		parts := make([]string, 3)
		for i, line := range lines {
			part := i * 3 / len(lines) // one after the other
			if random.IntN(2) == 0 {
				part = random.IntN(3)
			}
			parts[part] += line
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write([]byte(parts[0])); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		parts[0] = packed.String()
		if got := jsonOf(t, replayed(t, o, shortFormat, parts...)); got != want {
			t.Fatalf("a log in three files has another report:\n%s", difference(got, want))
		}
	}
}

// difference returns where two texts begin to differ.
func difference(a, b string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	from := max(0, i-80)
	return a[from:min(len(a), i+80)] + "\nwant\n" + b[from:min(len(b), i+80)]
}

func jsonOf(t *testing.T, r *Report) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Rules that need what the log lacks are left out with the remedy, and so are classes and the rules that need them.
func TestRulesWithoutTheirDataAreLeftOut(t *testing.T) {
	limits := []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1)})}
	global := []policy.Part{policy.Global()}
	p := rules(
		policy.Rule{Name: "plain", Key: global, Limits: limits},
		policy.Rule{Name: "header", Key: []policy.Part{policy.Header("x-key")}, Limits: limits},
		policy.Rule{Name: "host", Key: global, Limits: limits, Match: policy.Match{Hosts: []string{"a.example"}}},
		policy.Rule{Name: "exception", Key: global, Limits: limits, Match: policy.Match{Unless: []policy.Match{{Cookies: []policy.ValueMatch{{Name: "c"}}}}}},
		policy.Rule{Name: "bytes", Key: global, Limits: limits, Cost: policy.Cost{Source: policy.CostResponseBytes}},
		policy.Rule{Name: "lease", Key: global, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 1})}},
		policy.Rule{Name: "class", Key: global, Limits: limits, Match: policy.Match{Classes: []string{"vip"}}},
		policy.Rule{Name: "query", Key: []policy.Part{policy.Query("q")}, Limits: limits},
	)
	p.Options.Classes = []policy.Class{{Name: "vip", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Vip"}}}}}
	line := "1800000000.5 192.0.2.1 \"GET / HTTP/1.1\" 200\n"
	got := map[string]string{}
	for _, u := range replayed(t, Options{Policy: p}, shortFormat, line).Unevaluated {
		got[u.Name] = u.Lacks
		if u.Remedy == "" {
			t.Errorf("%s has no remedy", u.Name)
		}
	}
	want := map[string]string{
		"vip": "header:X-Vip", "header": "header:X-Key", "host": "the host of the request", "exception": "cookie:c", "bytes": "the size of the response",
		"lease": "how long requests took", "class": "the class vip, which needs what the log lacks",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("not evaluated are %v, want %v", got, want)
	}
	assumed := []Assumption{{logs.Name{Source: "header", Name: "X-Key"}, "k"}, {logs.Name{Source: "header", Name: "X-Vip"}, "1"}, {logs.Name{Source: "cookie", Name: "c"}, "v"}}
	report := replayed(t, Options{Policy: p, Assumed: assumed}, shortFormat, line+line)
	counts := map[string]int64{}
	for _, r := range report.Rules {
		counts[r.Name] = r.Requests
	}
	if want := map[string]int64{"plain": 2, "header": 2, "exception": 0, "class": 2, "query": 2}; fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("with assumptions, the rules match %v, want %v", counts, want)
	}
}

// A cost that the response decides is the one of its own record, however many records are read before the response ends.
func TestCostsOfLongResponses(t *testing.T) {
	rule := policy.Rule{
		Name: "costs", Key: []policy.Part{policy.ClientIP()}, Cost: policy.Cost{Source: policy.CostResponseHeader, Header: "X-Cost", Estimate: 1},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(100)})},
	}
	var log strings.Builder
	const others = 2 * batches * batchSize
	for i := range others {
		client, cost, duration := "192.0.2.2", 0, 0
		if i%(others/20) == 0 && i < others/20*20 {
			client, cost, duration = "192.0.2.1", 5, 60
		}
		fmt.Fprintf(&log, "%d.%03d %s \"GET / HTTP/1.1\" 200 %d %d\n", 1_800_000_000+i/1000+duration, i%1000, client, duration, cost)
	}
	format := `nginx:$msec $remote_addr "$request" $status $request_time $sent_http_x_cost`
	report := replayed(t, Options{Policy: rules(rule)}, format, log.String()+
		fmt.Sprintf("%d.000 192.0.2.1 \"GET / HTTP/1.1\" 200 0 1\n", 1_800_000_000+300))
	if report.Requests.Limited != 1 || report.Clients.Limited != 1 {
		t.Errorf("%d requests of %d clients are limited; the last request is the only one, because twenty before it cost 5 of 100 units each", report.Requests.Limited, report.Clients.Limited)
	}
}

// A log of decisions has no durations. Its verdicts by leases agree if some durations lead to them, and are counted.
func TestLeasesOfDecisionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name           string
		queue          int64
		verdicts       string // a letter for each request: allow or deny, of the first client or of the second
		within, differ int64
	}{
		{"leases end in time", 0, "aaaaa", 3, 0},
		{"all are held", 0, "aadda", 1, 0},
		{"each client has its own", 0, "aAaAdD", 0, 0},
		{"a lease is free", 0, "ad", 0, 1},
		{"another client's are held", 0, "aaD", 0, 1},
		{"requests wait", 3, "aaaaa", 3, 0},
		{"a wait is too long", 3, "aaada", 3, 0},
		{"nobody has to wait", 3, "ada", 1, 1}, // the replay lets the second request pass
	} {
		var log strings.Builder
		for i, letter := range c.verdicts {
			action := map[rune]string{'a': "allow", 'd': "deny"}[unicode.ToLower(letter)]
			fmt.Fprintf(&log, `{"time":"2026-11-27T10:00:%02d.5Z","client_ip":"192.0.2.%d","method":"GET","path":"/","action":%q,"rule":"per-client"}`+"\n", i, bit(unicode.IsUpper(letter)), action)
		}
		r := replayed(t, Options{Policy: rules(perClient(sluice.Concurrency{Max: 2, Queue: c.queue})), Check: true}, "sluice", log.String())
		if got := r.Check; got.Compared != int64(len(c.verdicts)) || got.Compared-got.Agreed != c.differ || got.Within != c.within {
			t.Errorf("%s: of the verdicts %s, %+v; want %d to differ and %d to agree within what the log lacks", c.name, c.verdicts, *got, c.differ, c.within)
		}
	}
}

// The limits of a policy did not decide what a fallback did, or what units ahead paid for. So a check leaves these lines out.
func TestChecksLeaveOutWhatNoLimitDecided(t *testing.T) {
	var log strings.Builder
	for i, rest := range []string{`"allow"`, `"deny"`, `"allow","ahead":true`, `"allow","degraded":true`, `"deny","degraded":false`, `"allow"`} {
		fmt.Fprintf(&log, `{"time":"2026-11-27T10:00:%02d.5Z","client_ip":"192.0.2.1","method":"GET","path":"/","rule":"per-client","action":%s}`+"\n", i, rest)
	}
	r := replayed(t, Options{Policy: rules(perClient(sluice.TokenBucket{Rate: sluice.PerDay(1)})), Check: true}, "sluice", log.String())
	if c := r.Check; c.Compared != 4 || c.Agreed != 3 || c.NotCompared != 2 || c.Examples[0].Line != 6 {
		t.Errorf("of two verdicts of no limit, three right ones and a wrong one, the check says %+v", *c)
	}
}

// A header that a request has several times is read as a server reads it: a key with two values is refused.
func TestRepeatedHeadersOfLogs(t *testing.T) {
	rule := perClient(sluice.TokenBucket{Rate: sluice.PerDay(10)})
	rule.Key = []policy.Part{policy.Header("X-Key").IfMissing(policy.MissingDeny)}
	line := `{"ts":1800000000,"duration":0,"status":200,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/","headers":{"X-Key":%s}}}` + "\n"
	report := replayed(t, Options{Policy: rules(rule)}, "caddy", fmt.Sprintf(line+line+line, `["a"]`, `["a","b"]`, `["",""]`))
	want := http.Header{"X-Key": {"a", "b"}}
	got := newRequest(&logs.Layout{Names: []logs.Name{{Source: "header", Name: "X-Key"}}}, nil)
	got.set(&logs.Record{Target: "/", Values: []string{"a" + logs.Separator + "b"}})
	if !reflect.DeepEqual(got.Header, want) {
		t.Errorf("the request has the headers %v, want %v", got.Header, want)
	}
	if report.Requests.Limited != 2 || report.Rules[0].Reasons["repeated-key"] != 2 {
		t.Errorf("%d of 3 requests are limited, for %v; want the two with several keys", report.Requests.Limited, report.Rules[0].Reasons)
	}
}

// Refusals in the log count as demand, once for all repetitions, or not at all.
func TestLoggedRefusals(t *testing.T) {
	text := ""
	for _, l := range []struct {
		at, client, status int
	}{{0, 1, 429}, {1, 1, 429}, {2, 2, 200}, {3, 1, 200}, {4, 1, 200}, {5, 2, 429}, {100, 2, 429}} {
		text += fmt.Sprintf("%d.000001 192.0.2.%d \"GET / HTTP/1.1\" %d\n", 1_800_000_000+l.at, l.client, l.status)
	}
	p := rules(perClient(sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1}))
	for logged, want := range map[Logged]string{Demand: "7 5 4", Collapse: "5 3 3", Drop: "3 1 0"} {
		r := replayed(t, Options{Policy: p, Logged: logged}, shortFormat, text)
		if got := fmt.Sprint(r.Requests.Total, r.Requests.Limited, r.Requests.Logged); got != want {
			t.Errorf("%s: %s requests in all, limited and limited in the log; want %s", logged, got, want)
		}
		if r.Requests.Total+r.Log.LeftOut != 7 {
			t.Errorf("%s: %d requests are left out", logged, r.Log.LeftOut)
		}
	}
}

// Clients that retry come back after the time that their answer has, and then pass.
func TestClientsThatRetry(t *testing.T) {
	text := ""
	for i := range 4 {
		text += fmt.Sprintf("%d.000001 192.0.2.1 \"GET / HTTP/1.1\" 200\n", 1_800_000_000+i)
	}
	text += "1800000100.5 192.0.2.2 \"GET / HTTP/1.1\" 200\n"
	r := replayed(t, Options{Policy: rules(perClient(sluice.TokenBucket{Rate: sluice.PerMinute(6), Burst: 1})), Retry: true}, shortFormat, text)
	if q := r.Requests; q.Limited != 3 || q.Retries < 3 || q.Again != q.Retries-3 {
		t.Errorf("%+v; want 3 limited requests that all pass in the end", q)
	}
}

// What is newly limited, and what is freed, is relative to the policy before, or to the log.
func TestChangesAreRelativeToWhatWas(t *testing.T) {
	text := ""
	for i := range 10 {
		text += fmt.Sprintf("%d.000001 192.0.2.%d \"GET /x HTTP/1.1\" %d\n", 1_800_000_000+i, i%2, []int{200, 429}[bit(i == 8)])
	}
	few, many := rules(perClient(sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 3})), rules(perClient(sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 100}))
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Policy: few}, "newly {3 1} freed {0 0}"},
		{Options{Policy: many}, "newly {0 0} freed {1 1}"},
		{Options{Policy: few, Against: many}, "newly {4 2} freed {0 0}"},
		{Options{Policy: many, Against: few}, "newly {0 0} freed {4 2}"},
		{Options{Policy: few, Against: few}, "newly {0 0} freed {0 0}"},
	} {
		r := replayed(t, c.o, shortFormat, text)
		if got := fmt.Sprint("newly ", r.NewlyLimited, " freed ", r.Freed); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
		var sum int64
		for _, cell := range r.Matrix {
			sum += cell.Requests
		}
		if sum != r.Requests.Total {
			t.Errorf("the matrix has %d requests of %d", sum, r.Requests.Total)
		}
	}
}

// Texts of a hostile log stay texts in a terminal.
func TestHostileTexts(t *testing.T) {
	text := "1800000000.5 192.0.2.1 \"GET /<script>\\x1b[31m\\xff\\x00\\xe2\\x80\\xae HTTP/1.1\" 200\n"
	r := replayed(t, Options{Policy: rules(perClient(sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1}))}, shortFormat, strings.Repeat(text, 3)+"\x1b]0;x\x07\u202e\x00\n"+strings.Repeat("y", 1<<20)+"\n")
	var out strings.Builder
	if err := r.Text(&out); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07\x00\u202e") || r.Log.Bad != 2 {
		t.Errorf("%d bad lines; the terminal gets %q", r.Log.Bad, out.String())
	}
}

// A series counts everything, however long it becomes.
func TestSeriesCountEverything(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 4))
	for range 200 {
		var s series
		var times []int64
		at := random.Int64N(1 << 40)
		for range 1 + random.IntN(500) {
			at += int64(random.ExpFloat64() * float64(micros) * float64(random.Int64N(1000)))
			times = append(times, at)
			s.add(at, 1)
		}
		var sum int64
		for i, n := range s.cells {
			sum += n
			from := (s.first + int64(i)) * steps[s.step] * micros
			for _, at := range times {
				if at >= from && at < from+steps[s.step]*micros {
					n--
				}
			}
			if n != 0 {
				t.Fatalf("cell %d of %v counts %d too many", i, s, n)
			}
		}
		if sum != int64(len(times)) || len(s.cells) > mostCells {
			t.Fatalf("%d of %d in %d cells", sum, len(times), len(s.cells))
		}
	}
}

// An expectation holds or fails by a number of the report. Without such a number it is an error.
func TestExpectationsHoldByNumbers(t *testing.T) {
	r := &Report{NewlyLimited: Change{Clients: 5}, Rules: []Rule{{Name: "login", Limited: 7}}}
	for text, want := range map[string]bool{
		"unevaluated.#=0": false, "rules.#=1": true, `rules.#(name=="other").limited<=7`: false,
		"newly_limited.clients<=5": true, "newly_limited.clients<5": false, "newly_limited.clients >= 6": false, "newly_limited.clients = 5": true,
		`rules.#(name=="login").limited<=7`: true, `rules.#(name=="login").limited>7`: false,
	} {
		e, err := ParseExpectation(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Check(r); (got == nil) != want {
			t.Errorf("%s: the check returns %v, and should fail: %v", text, got, !want)
		}
	}
	for _, text := range []string{"", "clients", "a<=b", "newly_limited<=5", "version<=1%", "policy<=5"} {
		if _, err := ParseExpectation(text); err == nil {
			t.Errorf("%q is an expectation", text)
		}
	}
}

// Several engines, each for clients of its own, have the report of one engine.
func TestShardsChangeNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 9))
	for round := range soak.Times(t, 3) {
		var b strings.Builder
		at := 1_800_000_000.0
		for range 2000 {
			at += 0.000_001 + random.ExpFloat64()*float64(1+2*round)
			client := fmt.Sprintf("192.0.2.%d", random.IntN(20))
			if random.IntN(3) == 0 {
				client = fmt.Sprintf("2001:db8:%d::%x", random.IntN(4), random.IntN(9))
			}
			if random.IntN(9) == 0 {
				client = fmt.Sprintf([]string{"::ffff:192.0.2.%d", "host%d.example", "192.0.2.25%d"}[random.IntN(3)], random.IntN(20))
			}
			fmt.Fprintf(&b, "%.6f %s \"%s /%d HTTP/1.1\" %d\n", at, client, []string{"GET", "POST"}[random.IntN(2)], random.IntN(5), []int{200, 429}[bit(random.IntN(9) == 0)])
		}
		second := perClient(sluice.FixedWindow{Rate: sluice.PerMinute(4)})
		second.Name, second.Key = "second", []policy.Part{policy.Method(), policy.ClientIP()}
		p := rules(perClient(sluice.TokenBucket{Rate: sluice.PerMinute(3), Burst: 4}), second)
		o := Options{Policy: p, Against: rules(perClient(sluice.SlidingLog{Rate: sluice.PerMinute(5)}))}
		several := jsonOf(t, replayed(t, o, shortFormat, b.String()))
		if want := "clients have no address in the log"; !strings.Contains(several, want) {
			t.Errorf("round %d: the report lacks that %s:\n%s", round, want, several)
		}
		o.alone = true
		if one := jsonOf(t, replayed(t, o, shortFormat, b.String())); several != one {
			t.Fatalf("round %d: with several engines, the report differs:\n%s", round, difference(several, one))
		}
	}
}
