package protocols

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// longest is how long the tests of pipelines wait for what must come.
const longest = 20 * time.Second

// forPipelines is a server over a Redis for clients that send many questions together.
func forPipelines(address, deadline string) string {
	return fmt.Sprintf(`listen: {proxy: "off", api: '127.0.0.1:0', admin: '127.0.0.1:0', resp: '127.0.0.1:0'}
store: {redis: {addresses: ['%s'], deadline: %s, local: {share: 1/2}}}
rules:
  - {name: three, match: {path: /three}, key: client_ip, limit: {algorithm: token_bucket, rate: 3/d}}
  - {name: pair, match: {path: /pair/*}, key: client_ip, limits: [{name: a, algorithm: fixed_window, rate: 3/d}, {name: b, algorithm: sliding_log, rate: 9/d}]}
  - {name: all, match: {path: /pair/all}, key: global, limit: {algorithm: fixed_window, rate: 8/d}}
  - {name: many, match: {path: /many}, key: client_ip, limit: {algorithm: fixed_window, rate: 1000000/d}}
  - {name: strict, match: {path: /strict}, key: client_ip, limit: {algorithm: fixed_window, rate: 1000000/d}, on_store_error: deny}
  - {name: half, match: {path: /half}, key: client_ip, limit: {algorithm: fixed_window, rate: 8/d}, on_store_error: local}
  - {name: hybrid, match: {path: /hybrid}, key: client_ip, limit: {algorithm: fixed_window, rate: 1000000/d}, hybrid: {sync: 100ms}}
`, address, deadline)
}

// pipelined is a server that gets questions together.
type pipelined struct {
	*testing.T
	server *process.Sluice
	client *redis.Client
}

func pipelines(t *testing.T, config string) *pipelined {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.StartSluice(t, exec.Command(process.Program(), "serve", file), 3)
	p := &pipelined{t, s, redis.NewClient(&redis.Options{Addr: s.Address("resp"), ReadTimeout: longest})}
	t.Cleanup(func() { p.client.Close() })
	return p
}

// checks gives SLUICE.CHECK for each pair of a rule and a key, in one pipeline, and returns whether each is allowed.
func (p *pipelined) checks(pairs ...string) string {
	p.Helper()
	pipe := p.client.Pipeline()
	for _, pair := range pairs {
		rule, key, _ := strings.Cut(pair, " ")
		pipe.Do(p.Context(), "SLUICE.CHECK", rule, key)
	}
	replies, err := pipe.Exec(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	text := ""
	for _, r := range replies {
		verdict, ok := r.(*redis.Cmd).Val().(map[any]any)
		if !ok {
			p.Fatalf("the reply is %v", r)
		}
		text += fmt.Sprint(verdict["allowed"])
	}
	return text
}

// batch calls /v1/check with a batch, and returns whether each request is allowed.
func (p *pipelined) batch(requests ...string) string {
	p.Helper()
	res, err := http.Post(p.server.URLs["api"]+"/v1/check", "application/json", strings.NewReader(`{"requests":[`+strings.Join(requests, ",")+`]}`)) //nolint:noctx // the client of tests
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	var got struct {
		Answers []struct{ Decision struct{ Allowed bool } }
	}
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		p.Fatal(err)
	}
	text := ""
	for _, a := range got.Answers {
		text += map[bool]string{true: "1", false: "0"}[a.Decision.Allowed]
	}
	return text
}

// figure returns a metric.
func (p *pipelined) figure(series string) float64 {
	p.Helper()
	res, err := http.Get(p.server.URLs["admin"] + "/metrics") //nolint:noctx // the client of tests
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				p.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// scripts returns how many scripts a Redis has run.
func scripts(t *testing.T, r *redistest.Server) (n int) {
	t.Helper()
	text, err := r.Text(t.Context(), "INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		calls, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		n += calls
	}
	return n
}

// Questions that arrive together are decided in their order, by few scripts.
func TestPipelinesOverRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := pipelines(t, forPipelines(r.Addr(), "5s"))
	if got := p.checks(slices.Repeat([]string{"three 192.0.2.1"}, 5)...); got != "11100" {
		t.Errorf("five questions about three units: %s", got)
	}
	if got := p.checks("pair 192.0.2.1", "three 192.0.2.2", "pair 192.0.2.1", "pair 192.0.2.1", "pair 192.0.2.1", "three 192.0.2.2"); got != "111101" {
		t.Errorf("questions about two limits: %s", got)
	}
	// The rule for all has 8 units: 6 for two clients, and 2 for the third.
	var requests []string
	for i := range 4 {
		requests = append(requests, slices.Repeat([]string{fmt.Sprintf(`{"path": "/pair/all", "client_ip": "192.0.3.%d"}`, i)}, 4)...)
	}
	if got := p.batch(requests...); got != "1110"+"1110"+"1100"+"0000" {
		t.Errorf("a batch with a limit for all: %s", got)
	}
	for name, ask := range map[string]func(n int) string{
		"a pipeline": func(n int) string {
			var pairs []string
			for i := range n {
				pairs = append(pairs, fmt.Sprintf("many 192.0.%d.%d", 10+i/256, i%256))
			}
			return p.checks(pairs...)
		},
		"a batch": func(n int) string {
			var requests []string
			for i := range n {
				requests = append(requests, fmt.Sprintf(`{"path": "/many", "client_ip": "192.0.%d.%d"}`, 20+i/256, i%256))
			}
			return p.batch(requests...)
		},
	} {
		before := scripts(t, r)
		if got := ask(1000); got != strings.Repeat("1", 1000) {
			t.Errorf("%s: of 1000 questions, all should be allowed: %s", name, got)
		}
		if n := scripts(t, r) - before; n > 100 {
			t.Errorf("%s of 1,000 questions takes %d scripts", name, n)
		}
	}
	if got := p.checks(slices.Repeat([]string{"hybrid 192.0.2.1"}, 200)...); got != strings.Repeat("1", 200) {
		t.Errorf("a hybrid limit: %s", got)
	}
}

// While Redis hangs, each question of a pipeline is answered by its own rule. Afterwards the store decides again.
func TestPipelinesWhileRedisHangs(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := pipelines(t, forPipelines(r.Addr(), "100ms"))
	pairs, want := []string{}, ""
	for range 10 {
		pairs = append(pairs, "many 192.0.2.1", "strict 192.0.2.1", "half 192.0.2.1")
	}
	for i := range 10 { // the part of this server is 4 units
		want += "10" + map[bool]string{true: "1", false: "0"}[i < 4]
	}
	p.checks("many 192.0.2.2", "strict 192.0.2.2", "half 192.0.2.2")
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if got := p.checks(pairs...); got != want {
		t.Errorf("the pipeline is answered %s, want %s", got, want)
	}
	if got := p.batch(`{"path": "/many", "client_ip": "192.0.2.1"}`, `{"path": "/strict", "client_ip": "192.0.2.1"}`); got != "10" {
		t.Errorf("the batch is answered %s", got)
	}
	if took := time.Since(began); took > longest/2 {
		t.Errorf("the answers took %v", took)
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(longest); p.checks("strict 192.0.2.3", "strict 192.0.2.4") != "11"; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the store does not decide again")
		}
	}
}

// TestPatientDecisionsOutlastOtherCalls stops Redis for longer than the server waits for other calls, such as reads of overrides,
// and for less than a decision may take. Those calls do not end the decision that waits on the same connection.
func TestPatientDecisionsOutlastOtherCalls(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := pipelines(t, forPipelines(r.Addr(), "20s"))
	var before sync.WaitGroup
	for range 32 { // at once, so that later calls share a connection with calls that wait
		before.Go(func() {
			if got := p.checks("strict 192.0.2.1"); got != "1" {
				t.Errorf("before Redis stops, the decision is %s, want 1", got)
			}
		})
	}
	before.Wait()
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	decided := make(chan string, 1)
	go func() { defer close(decided); decided <- p.checks("strict 192.0.2.1") }()
	p.until("sluice_overrides_stale", func(n float64) bool { return n == 1 })
	<-time.After(time.Second) // the next calls are written, and given up
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	if got := <-decided; got != "1" {
		t.Errorf("the decision that waited for Redis is %q, want 1: it had 20 s", got)
	}
}

// until waits for a metric.
func (p *pipelined) until(series string, ok func(value float64) bool) {
	p.Helper()
	for deadline := time.Now().Add(longest); !ok(p.figure(series)); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("%s is %v", series, p.figure(series))
		}
	}
}

// charged returns how many units a key of rule strict has used.
func (p *pipelined) charged(key string) float64 {
	p.Helper()
	verdict, err := p.client.Do(p.Context(), "SLUICE.CHECK", "strict", key, "PEEK").Result()
	if err != nil {
		p.Fatal(err)
	}
	remaining, ok := verdict.(map[any]any)["remaining"].(int64)
	if !ok {
		p.Fatalf("the reply is %v", verdict)
	}
	return float64(1_000_000 - remaining)
}

// The decisions of rule strict. Its limit allows everything, so it denies only if the store fails.
const (
	strictAllowed  = `sluice_decisions_total{outcome="allowed",rule="strict"}`
	strictDenied   = `sluice_decisions_total{outcome="denied",rule="strict"}`
	strictDegraded = `sluice_degraded_decisions_total{on_store_error="deny",rule="strict"}`
	callsInFlight  = "sluice_store_calls_in_flight"
)

// begun waits until Redis, to which no bytes pass, is called for so many pipelines. One more call is the probe of a store that has
// not answered lately: without it, it could be one of so many.
func (p *pipelined) begun(pipelines int) {
	p.Helper()
	p.until(callsInFlight, func(n float64) bool { return n == float64(pipelines+1) })
}

// hangUp sends n questions about rule strict on each of so many connections, runs meanwhile, and closes the connections.
// No reply is read.
func (p *pipelined) hangUp(connections, n int, key string, meanwhile func()) {
	p.Helper()
	question := fmt.Sprintf("*3\r\n$12\r\nSLUICE.CHECK\r\n$6\r\nstrict\r\n$%d\r\n%s\r\n", len(key), key)
	var all []net.Conn
	for range connections {
		c, err := net.Dial("tcp", p.server.Address("resp"))
		if err != nil {
			p.Fatal(err)
		}
		if _, err := c.Write(bytes.Repeat([]byte(question), n)); err != nil {
			p.Fatal(err)
		}
		all = append(all, c)
	}
	meanwhile()
	for _, c := range all {
		if err := c.Close(); err != nil {
			p.Fatal(err)
		}
	}
}

// settled keeps as many idle goroutines in the server as it ever keeps for pipelines, and returns how many goroutines it has.
func (p *pipelined) settled(proxy *redistest.Proxy) float64 {
	p.Helper()
	p.until("sluice_store_up", func(n float64) bool { return n == 1 }) // on a busy machine, the server starts without Redis
	if err := proxy.Hold(); err != nil {
		p.Fatal(err)
	}
	p.hangUp(8, 64, "192.0.2.250", func() { p.begun(8) })
	if err := proxy.Pass(); err != nil {
		p.Fatal(err)
	}
	p.until(strictAllowed, func(n float64) bool { return n == 8*64 })
	least := p.figure("go_goroutines")
	for unchanged := 0; unchanged < 20; <-time.After(10 * time.Millisecond) {
		unchanged++
		if n := p.figure("go_goroutines"); n < least {
			least, unchanged = n, 0
		}
	}
	return least
}

// fewGoroutines is by how much the goroutines of a server may differ: some serve the test's own connections.
const fewGoroutines = 5

// A client that hangs up leaves no goroutine behind. The commands that had begun are charged once and counted once, and
// no others are.
func TestPipelinesOfClientsThatHangUp(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	p := pipelines(t, forPipelines(proxy.Addr(), "20s"))
	goroutines := p.settled(proxy)

	// All commands have begun when their clients hang up: 8 questions of each share a call.
	before := p.figure(strictAllowed)
	if err := proxy.Hold(); err != nil {
		t.Fatal(err)
	}
	p.hangUp(10, 8, "192.0.2.10", func() { p.begun(10) })
	if err := proxy.Pass(); err != nil {
		t.Fatal(err)
	}
	p.until(strictAllowed, func(n float64) bool { return n-before == 80 })
	if charged := p.charged("192.0.2.10"); charged != 80 {
		t.Errorf("%v units are charged for 80 commands that had begun", charged)
	}

	// The server reads some of the commands, and then finds that the client is gone.
	before = p.figure(strictAllowed)
	p.hangUp(60, 300, "192.0.2.11", func() {})
	// It has found that out for all when nothing changes any more: some connections may wait to be accepted until then.
	var charged, counted float64
	process.Eventually(t, "as many counted decisions as charged units, and few goroutines", func() bool {
		few := p.figure("go_goroutines") <= goroutines+fewGoroutines
		counted, charged = p.figure(strictAllowed)-before, p.charged("192.0.2.11")
		return few && charged > 0 && charged == counted
	})
	if charged > 60*300 {
		t.Errorf("%v units are charged for %d commands", charged, 60*300)
	}
	if denied, degraded := p.figure(strictDenied), p.figure(strictDegraded); denied+degraded != 0 {
		t.Errorf("%v decisions are counted as denied and %v as degraded, although the store decided all", denied, degraded)
	}
}

// Connections to Redis that are lost leave no goroutine behind. Each question of a pipeline has its reply: allowed if
// Redis answered, and otherwise what the rule says. What is allowed has been charged. What was lost is charged at most once.
func TestPipelinesWithLostConnections(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	p := pipelines(t, forPipelines(proxy.Addr(), "20s"))
	goroutines := p.settled(proxy)
	allowed, asked, rounds := p.figure(strictAllowed), 0, 0
	ask := func(key string, n int) string {
		t.Helper()
		asked += n
		return p.checks(slices.Repeat([]string{"strict " + key}, n)...)
	}
	if got := ask("192.0.2.1", 20); got != strings.Repeat("1", 20) { // so that Redis has the script
		t.Fatalf("before a fault: %s", got)
	}
	held := func() { // the questions, and their connection
		p.until(callsInFlight, func(n float64) bool { return n > 0 })
		proxy.Drop()
	}
	cut := func(bytes int) func(string) error { // as soon as Redis has the first question about a key
		return func(key string) error { return proxy.Cut(key, bytes) }
	}
	for _, fault := range []struct {
		name    string
		begin   func(key string) error
		lose    func()
		charged [2]float64 // at least and at most; later questions may be lost with the connection
	}{
		{"the questions are lost", func(string) error { return proxy.Hold() }, held, [2]float64{0, 0}},
		{"the replies are lost", cut(0), func() {}, [2]float64{1, 20}},
		{"the replies are cut", cut(9), func() {}, [2]float64{1, 20}},
	} {
		for range 5 {
			key := fmt.Sprintf("192.0.3.%d", 100+rounds) // none begins another one
			rounds++
			if err := fault.begin(key); err != nil {
				t.Fatal(err)
			}
			replies := make(chan string, 1)
			go func() { defer close(replies); replies <- ask(key, 20) }()
			fault.lose()
			got := <-replies
			if err := proxy.Pass(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(longest); ask("192.0.2.2", 1) != "1"; <-time.After(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: the store does not decide again", fault.name)
				}
			}
			if charged := p.charged(key); got != strings.Repeat("0", 20) || charged < fault.charged[0] || charged > fault.charged[1] {
				t.Errorf("%s: the replies are %s, and %v units are charged, want %v", fault.name, got, charged, fault.charged)
			}
		}
	}
	p.until("go_goroutines", func(n float64) bool { return n <= goroutines+fewGoroutines })
	answered := p.figure(strictAllowed) - allowed
	if charged := p.charged("192.0.2.1") + p.charged("192.0.2.2"); answered != charged {
		t.Errorf("%v decisions are counted as allowed, and %v units are charged", answered, charged)
	}
	if denied, degraded := p.figure(strictDenied), p.figure(strictDegraded); answered+denied != float64(asked) || degraded != denied {
		t.Errorf("%d questions are counted as %v allowed, %v denied and %v degraded", asked, answered, denied, degraded)
	}
}
