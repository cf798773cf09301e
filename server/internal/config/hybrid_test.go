package config

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"

	"github.com/sluicehq/sluice/internal/file/rules"
)

// The hybrid terms of a file become the terms of its limit.
func TestParseHybrid(t *testing.T) {
	f, err := Load("testdata/all-redis.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := rules.Hybrid{
		Enabled: true, Sync: 200 * time.Millisecond, Life: 5 * time.Second, Stranded: reader.Share{Of: 1, Parts: 10},
		Overdraft: reader.Portion{Units: 50}, Credit: reader.Portion{Share: reader.Share{Of: 1, Parts: 2}},
	}
	if got := f.Rules[1].Hybrid; got != want {
		t.Errorf("hybrid = %+v, want %+v", got, want)
	}
	p, err := f.Policy()
	if err != nil {
		t.Fatal(err)
	}
	r := p.Rule("hot")
	terms := sluice.Hybrid{Sync: 200 * time.Millisecond, Life: 5 * time.Second, Stranded: 0.1, Overdraft: 50, Credit: 500}
	for _, l := range []*sluice.Limit{r.Limits[0], r.Candidate[0]} {
		if h := l.Hybrid(); h == nil || *h != terms {
			t.Errorf("%s: the terms are %+v, want %+v", l.Name(), h, terms)
		}
	}
	if p.Rule("per-client").Limits[0].Hybrid() != nil {
		t.Error("a rule without hybrid has hybrid limits")
	}
	terms.Credit = 1000
	for _, o := range overridesOf(r) {
		if h := o.Limits[0].Hybrid(); h == nil || *h != terms {
			t.Errorf("override of %q: the terms are %+v, want %+v", o.Key, h, terms)
		}
	}
}

// hybridFile is a file with one rule, whose settings are text, over a store in Redis.
func hybridFile(text string) string {
	return "version: 1\nupstream: echo\nstore: {redis: {addresses: [127.0.0.1:6379]}}\nrules:\n  - name: hot\n    key: client_ip\n" + text
}

// hybrid: true means the terms' defaults, and hybrid: false and no hybrid mean exact limits.
func TestHybridIsTrueOrFalse(t *testing.T) {
	for text, want := range map[string]*sluice.Hybrid{
		"hybrid: true":                       {Sync: 100 * time.Millisecond, Life: 2 * time.Second, Stranded: 0.05},
		"hybrid: {}":                         {Sync: 100 * time.Millisecond, Life: 2 * time.Second, Stranded: 0.05},
		"hybrid: {sync: 1s}":                 {Sync: time.Second, Life: 4 * time.Second, Stranded: 0.05},
		"hybrid: {credit: 100%}":             {Sync: 100 * time.Millisecond, Life: 2 * time.Second, Stranded: 0.05, Credit: 2000},
		"hybrid: {overdraft: 1/3}":           {Sync: 100 * time.Millisecond, Life: 2 * time.Second, Stranded: 0.05, Overdraft: 666},
		"hybrid: false":                      nil,
		"max_waiting: 100\n    max_wait: 1s": nil,
	} {
		f, err := Parse("x.yaml", []byte(hybridFile("    limit: {algorithm: token_bucket, rate: 1000/s, burst: 2000}\n    "+text+"\n")))
		if err != nil {
			t.Errorf("%s was refused: %v", text, err)
			continue
		}
		p, err := f.Policy()
		if err != nil {
			t.Fatal(err)
		}
		switch h := p.Rule("hot").Limits[0].Hybrid(); {
		case (h == nil) != (want == nil):
			t.Errorf("%s: the terms are %+v", text, h)
		case h != nil && *h != *want:
			t.Errorf("%s: the terms are %+v, want %+v", text, *h, *want)
		}
	}
}

// Hybrid terms that have no effect, or little, are reported with their position and a remedy.
func TestHybridWarnings(t *testing.T) {
	const big = "    limit: {algorithm: token_bucket, rate: 100000/s}\n"
	for text, want := range map[string]string{
		big + "    hybrid: true\n":                                  "",
		big + "    hybrid: false\n":                                 "",
		big + "    hybrid: {credit: 1, overdraft: 1, sync: 10ms}\n": "",
		big + "    hybrid: true\n    max_wait: 1s\n":                "8:5: rules[0].hybrid: has no effect with max_wait, because the store decides about all requests that may wait; remove one of them",
		big + "    hybrid: true\n  - {name: b, key: global, limit: {algorithm: token_bucket, rate: 5/s}}\n":                                      `8:5: rules[0].hybrid: has no effect: its requests match rule "b" too, which is not hybrid, and the store decides about all limits of a request together; make both rules hybrid, or let the other rule match fewer requests`,
		big + "    hybrid: true\n  - {name: b, match: {path: /b}, key: global, limit: {algorithm: token_bucket, rate: 5/s}}\n":                   "",
		big + "    hybrid: true\n  - {name: b, key: {part: 'query:q', on_missing: skip}, limit: {algorithm: token_bucket, rate: 5/s}}\n":         "",
		big + "    cost: 20000\n    hybrid: {stranded: 10%}\n":                                                                                   "9:14: rules[0].hybrid.stranded: lets 10000 of 100000 units be granted at once, less than a request takes, so the store decides about each request; remove hybrid, because the limit is too small",
		"    limit: {algorithm: fixed_window, rate: 100000/s}\n    hybrid: {sync: 500ms}\n":                                                      "8:14: rules[0].hybrid.sync: is 500ms, and the window lasts 1s: in fewer than 5 syncs, much of the limit is left unused; give a shorter sync, or remove hybrid",
		"    limit: {algorithm: sliding_log, rate: 10000/s}\n    hybrid: {sync: 1s}\n":                                                           "8:14: rules[0].hybrid.sync: is 1s, and the window lasts 1s: in fewer than 5 syncs, much of the limit is left unused; give a shorter sync, or remove hybrid",
		"    limit: {algorithm: token_bucket, rate: 50/s}\n    hybrid: true\n":                                                                   "8:5: rules[0].hybrid: has little effect: a server decides by itself only while it gets 8 requests for a key in each sync of 100ms, and the limit admits 5 in that time; give sync: 170ms or more, or remove hybrid",
		"    limit: {algorithm: token_bucket, rate: 20/m}\n    hybrid: true\n":                                                                   "8:5: rules[0].hybrid: has little effect: a server decides by itself only while it gets 8 requests for a key in each sync of 100ms, and the limit admits 0.0333 in that time; remove hybrid, because the limit is too small",
		"    limit: {algorithm: token_bucket, rate: 50/s}\n    hybrid: {credit: 100%}\n":                                                         "",
		"    limit: {algorithm: token_bucket, rate: 100/s}\n    hybrid: true\n":                                                                  "8:5: rules[0].hybrid: lets 5 of 100 units be granted at once, to all servers together, so the store decides about most requests; give stranded: 8% or more, or remove hybrid",
		"    limit: {algorithm: token_bucket, rate: 50/s}\n    hybrid: {overdraft: 1%, sync: 1s}\n":                                              "8:14: rules[0].hybrid.overdraft: is less than one unit of 50; give more, or remove it",
		"    limit: {algorithm: token_bucket, rate: 50/s}\n    hybrid: {sync: 1s, credit: 1%}\n":                                                 "8:24: rules[0].hybrid.credit: is less than one unit of 50; give more, or remove it",
		"    limits:\n      - {algorithm: token_bucket, rate: 1000/s}\n      - {algorithm: fixed_window, rate: 1000/m}\n    hybrid: true\n":      "10:5: rules[0].hybrid: has little effect: a server decides by itself only while it gets 8 requests for a key in each sync of 100ms, and the limit admits 1.67 in that time (for limits[1]); give sync: 490ms or more, or remove hybrid",
		big + "    overrides:\n      - {key: 192.0.2.1, limit: {rate: 10/s}}\n      - {key: 192.0.2.2, limit: {rate: 20/s}}\n    hybrid: true\n": "11:5: rules[0].hybrid: has no effect on 1 of 2 overrides: the share of their limits that may be granted is less than one unit; give a larger share as stranded, or accept that the store decides about these keys",
	} {
		if want != "" {
			want = "x.yaml:" + want
		}
		checkWarnings(t, hybridFile(text), want)
	}
	memory := strings.Replace(hybridFile(big+"    hybrid: true\n"), "store: {redis: {addresses: [127.0.0.1:6379]}}", "store: memory", 1)
	checkWarnings(t, memory, "x.yaml:8:5: rules[0].hybrid: has no effect with the memory store, which decides in this process anyway; remove it, or give store: {redis: {…}}")
}

// checkWarnings checks the warnings about a file, one on each line.
func checkWarnings(t *testing.T, text, want string) {
	t.Helper()
	f, err := Parse("x.yaml", []byte(text))
	if err != nil {
		t.Errorf("%s was refused: %v", text, err)
		return
	}
	var got []string
	for _, w := range f.Warnings() {
		got = append(got, w.Error())
	}
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\n got %q\nwant %q", text, got, want)
	}
}
