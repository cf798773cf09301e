package threats

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// described are the rules under which descriptions of requests are decided, each with what makes its key or condition.
var described = []struct{ name, rule, source, part string }{
	{"query", `key: "query:user", ` + once, "query", "user"},
	{"cookie", `key: "cookie:session", ` + once, "cookies", "session"},
	{"header", `key: "header:X-User", ` + once, "headers", "X-User"},
	{"plan", `match: {query: {plan: free}}, always: true`, "query", "plan"},
	{"trial", `match: {unless: {query: {plan: paid}}}, always: true`, "query", "plan"},
	{"visit", `match: {cookie: {plan: free}}, always: true`, "cookies", "plan"},
	{"tariff", `match: {header: {X-Plan: free}}, always: true`, "headers", "X-Plan"},
	{"if", `match: {if: 'query("plan") in ["free", ""]'}, always: true`, "query", "plan"},
	{"host", `match: {if: 'header("Host") == "eve.example"'}, always: true`, "host", ""},
}

// description is a request as the decision API gets it, and the same request written out.
type description struct {
	fields []string // of the JSON object, without the path
	query  string
	host   string
	lines  []string
}

// describe makes a description for a rule. Its names and values have spellings in which only some services read them.
func (g gen) describe(source, part string) description {
	d := description{host: "www.example.com"}
	name := func() string {
		return g.mostly(part, strings.ToUpper(part), strings.ToUpper(part[:1])+part[1:], strings.ToLower(part), part+"[]", part+"[0]", part+"[x", " "+part, part+" ", "."+part, part+".", part+"\x00", part+"\x00x", "x"+part, part+"x", "["+part, part+"%5b", strings.ReplaceAll(part, "-", "_"), strings.ReplaceAll(part, "-", "."), strings.ReplaceAll(part, "-", ""))
	}
	value := func() string {
		return g.mostly(freshWord, "eve", "free", "paid", "", "free ", " eve", "\"eve\"", "eve,"+freshWord, "eve; "+part+"="+freshWord, "%65ve")
	}
	set := func(field, first, then string) { d.fields = append(d.fields, quoted(field)+": "+first+then) }
	switch source {
	case "host":
		d.host = g.mostly("eve.example", "EVE.example", "eve.example.", "eve.example:80", "eve.example:", "eve.example.:80", "eve.example:443", "ann.example", "x@eve.example", "eve.example ", "%65ve.example")
		set("host", quoted(d.host), "")
		if other := g.pick("ann.example", "bob.example"); g.chance(30) && other != d.host {
			set("headers", `{"Host": `+quoted(other)+"}", "")
			d.lines = []string{"Host: " + other}
		}
		return d
	case "query", "cookies", "headers":
		var pairs, members []string
		seen := map[string]bool{}
		for range g.some(3) {
			n := name()
			values := []string{value()}
			for g.chance(20) {
				values = append(values, value())
			}
			if seen[n] {
				continue
			}
			seen[n] = true
			texts := make([]string, len(values))
			for i, v := range values {
				texts[i] = quoted(v)
				switch source {
				case "query":
					pairs = append(pairs, url.QueryEscape(n)+"="+strings.ReplaceAll(url.QueryEscape(v), url.QueryEscape(freshWord), freshWord))
				case "cookies":
					pairs = append(pairs, n+"="+v)
				case "headers":
					d.lines = append(d.lines, n+": "+v)
				}
			}
			if len(texts) == 1 && g.chance(70) {
				members = append(members, quoted(n)+": "+texts[0])
			} else {
				members = append(members, quoted(n)+": ["+strings.Join(texts, ", ")+"]")
			}
		}
		set(source, "{"+strings.Join(members, ", "), "}")
		if source == "query" {
			d.query = "?" + strings.Join(pairs, "&")
		}
		if source == "headers" && g.chance(20) {
			named := g.pick(part, strings.ToLower(part), "close, "+part, "close")
			d.fields[0] = strings.TrimSuffix(d.fields[0], "}") + `, "Connection": ` + quoted(named) + "}"
			d.lines = append(d.lines, "Connection: "+named)
		}
		if source == "cookies" {
			d.lines = []string{"Cookie: " + strings.Join(pairs, "; ")}
		}
	}
	return d
}

// fetch sends a request that ends its connection, and returns the answer.
func fetch(addr, request string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(process.Patience))
	_, _ = io.WriteString(c, request) // it may be refused before it is read
	answer, err := io.ReadAll(c)
	if len(answer) > 0 {
		err = nil // the rest of the request was not read
	}
	return string(answer), err
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a text
	return string(b)
}

// TestDescriptionsAreDecidedAsRequests describes generated requests to the decision API, and sends the same requests to the
// proxy. What the proxy denies or refuses, the API does not allow.
func TestDescriptionsAreDecidedAsRequests(t *testing.T) {
	folder := t.TempDir()
	program, err := process.Build(folder)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: off}\nupstream: echo\nlog: {level: error}\nrules:\n")
	for _, d := range described {
		rule := "match: {path: /" + d.name + "}, " + d.rule
		if after, found := strings.CutPrefix(d.rule, "match: {"); found {
			rule = "match: {path: /" + d.name + ", " + after
		}
		fmt.Fprintf(&text, "  - {name: %s, %s}\n", d.name, rule)
	}
	config := filepath.Join(folder, "sluice.yaml")
	if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.StartSluice(t, exec.Command(program, "serve", config), 2)
	w := &world{}
	decide := func(path string, d description) (proxy, api bool, sent, answers string, err error) {
		request := w.tagged("GET /" + path + d.query + " HTTP/1.1\r\nHost: " + d.host + "\r\n" + strings.Join(append(d.lines, ""), "\r\n") + "Connection: close\r\n\r\n")
		first, err := fetch(s.Address("proxy"), request)
		if err != nil {
			return false, false, "", "", err
		}
		body := w.tagged("{" + strings.Join(append([]string{`"path": "/` + path + `"`}, d.fields...), ", ") + "}")
		call := fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		second, err := fetch(s.Address("api"), call)
		return strings.HasPrefix(first, "HTTP/1.1 200 "), strings.Contains(second, `"allowed":true`), quote(request) + "  and\n" + quote(body), fmt.Sprintf("%.40q and %q", first, second), err
	}
	for _, part := range []struct{ path, query, line string }{{"query", "?user=eve", ""}, {"query", "", ""}, {"cookie", "", "Cookie: session=eve\r\n"}, {"cookie", "", ""}, {"header", "", "X-User: eve\r\n"}, {"header", "", ""}} {
		if _, err := fetch(s.Address("proxy"), "GET /"+part.path+part.query+" HTTP/1.1\r\nHost: www.example.com\r\n"+part.line+"Connection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	seed := seedOf(t)
	begun := time.Now()
	total := redistest.Times(t, 4*attacks)
	var mu sync.Mutex
	seen := map[string]int{}
	allowed := 0
	var working sync.WaitGroup
	numbers := make(chan int)
	for range connections {
		working.Go(func() {
			for number := range numbers {
				g := newGen(seed, number)
				rule := described[g.IntN(len(described))]
				proxy, api, sent, answers, err := decide(rule.name, g.describe(rule.source, rule.part))
				if err != nil {
					t.Error(err)
					continue
				}
				mu.Lock()
				if proxy && api {
					allowed++
				}
				times := 0
				if api && !proxy {
					seen[rule.name]++
					times = seen[rule.name]
				}
				mu.Unlock()
				if times > 0 && times <= shown {
					t.Errorf("description %d of %s=%d is allowed by rule %q, found after %v:\n%s  are answered with %s", number, seedEnv, seed, rule.name, time.Since(begun), sent, answers)
				}
			}
		})
	}
	for number := range total {
		numbers <- number
	}
	close(numbers)
	working.Wait()
	for rule, times := range seen {
		t.Errorf("%d descriptions are allowed by rule %q", times, rule)
	}
	t.Logf("%d descriptions, %d allowed", total, allowed)
	if allowed < total/20 {
		t.Errorf("only %d descriptions are allowed", allowed)
	}
}
