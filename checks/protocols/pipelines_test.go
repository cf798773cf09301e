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
			t.Errorf("%s: %s", name, got)
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

// Connections to Redis that are lost, and clients that hang up, leave no goroutines behind. What was decided is charged and
// counted, and nothing else.
func TestPipelinesWithLostConnections(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	p := pipelines(t, forPipelines(proxy.Addr(), "2s"))
	p.checks("many 192.0.2.1")
	goroutines := p.figure("go_goroutines")
	var all bytes.Buffer
	for range 300 {
		all.WriteString("*3\r\n$12\r\nSLUICE.CHECK\r\n$4\r\nmany\r\n$9\r\n192.0.2.9\r\n")
	}
	for range 20 {
		c, err := net.Dial("tcp", p.server.Address("resp"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(all.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil { // before most replies
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(longest); ; <-time.After(20 * time.Millisecond) {
		counted := p.figure(`sluice_decisions_total{outcome="allowed",rule="many"}`) - 1 // without the first question
		verdict, err := p.client.Do(t.Context(), "SLUICE.CHECK", "many", "192.0.2.9", "PEEK").Result()
		if err != nil {
			t.Fatal(err)
		}
		charged := 1_000_000 - verdict.(map[any]any)["remaining"].(int64)
		if float64(charged) == counted && p.figure(`sluice_decisions_total{outcome="allowed",rule="many"}`) == counted+1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d units are charged, and %v decisions counted", charged, counted)
		}
	}
	for i := range 12 {
		if i%3 == 0 {
			go proxy.Drop()
		}
		began := time.Now()
		if got := p.checks(slices.Repeat([]string{"many 192.0.2.7", "pair 192.0.2.8", "many 192.0.2.6"}, 20)...); len(got) != 60 {
			t.Fatalf("the replies are %s", got)
		}
		if took := time.Since(began); took > longest {
			t.Fatalf("the replies take %v", took)
		}
	}
	for deadline := time.Now().Add(longest); p.figure("go_goroutines") > goroutines+300; <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there are %v goroutines, and were %v", p.figure("go_goroutines"), goroutines)
		}
	}
}
