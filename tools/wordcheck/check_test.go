package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEachHabitIsFound has a sentence with each habit, and sentences that only look like it.
func TestEachHabitIsFound(t *testing.T) {
	rows := map[string]struct {
		found []string
		fine  []string
	}{
		"those":             {found: []string{"Let those that wait go.", "as those of the rule"}, fine: []string{"Those limits hold."}},
		"that of":           {found: []string{"a key like that of a rule", "those of its limits"}, fine: []string{"a rate that of course holds"}},
		"the one that":      {found: []string{"the one that came first", "One is the one\nthat waits."}, fine: []string{"one that fits", "the one limit"}},
		"who":               {found: []string{"Who asks twice waits.", "It is closed, so that who waits is freed."}, fine: []string{"clients who have waited", "Who is the client?", "a list of who is banned"}},
		"whoever":           {found: []string{"Whoever waits is freed."}},
		"what stands":       {found: []string{"what stands in for a store", "It stands over the store.", "the store that it stood in for"}, fine: []string{"what is outstanding for it"}},
		"Of … first":        {found: []string{"Of a batch, one is denied.", "It ends. Of two keys one wins."}, fine: []string{"one of a batch", "Of course.", "of each request"}},
		"To a … that first": {found: []string{"To a rule that has none it adds one.", "Done. To those who wait it is free."}, fine: []string{"To the store it adds a key.", "added to a rule that has none"}},
		"tell":              {found: []string{"tells the pressure", "is told"}, fine: []string{"a teller"}},
		"meet":              {found: []string{"the rules that it meets"}, fine: []string{"meter"}},
		"know":              {found: []string{"the store knows"}, fine: []string{"is not known", "nobody can know"}},
		"ask":               {found: []string{"asks the store", "is asked for"}, fine: []string{"a task"}},
		"stand":             {found: []string{"stands in a file"}, fine: []string{"understands"}},
		"say":               {found: []string{"what the store says"}, fine: []string{"what people say"}},
		"is no":             {found: []string{"This is no error.", "They are no keys.", "is no number"}, fine: []string{"There is no error.", "is no longer", "is no more than", "is no slower"}},
		"anew":              {found: []string{"starts anew"}},
		", for":             {found: []string{"It waits, for it may come.", "denied, for the store is full"}, fine: []string{"the context, for a connection that is lost", "an hour, for each key"}},
		"alone":             {found: []string{"for the gate alone"}, fine: []string{"It leaves the key alone."}},
		"but for":           {found: []string{"nothing, but for bans"}, fine: []string{"but for no more than a day"}},
		"as ever":           {found: []string{"holds as ever"}},
		"be it":             {found: []string{"a limit, be it shared"}, fine: []string{"can be item"}},
		"toll":              {found: []string{"pays the toll"}, fine: []string{"a tollbooth"}},
		"soft rule":         {found: []string{"a soft rule"}, fine: []string{"software"}},
		"reading":           {found: []string{"all readings", "every reading"}, fine: []string{"reading the file", "a reading of the clock"}},
		"line of waiters":   {found: []string{"who waits in a line", "stands in line"}, fine: []string{"in a line of the file"}},
		"pass":              {found: []string{"the pass of a verdict"}, fine: []string{"they pass"}},
		"stand-in":          {found: []string{"the local stand-in"}},
		"place":             {found: []string{"a place in flight"}, fine: []string{"takes place", "in place", "two decimal places"}},
		"slot":              {found: []string{"a slot of the table"}},
		"old names":         {found: []string{"an algo.Ask", "policy.Met"}, fine: []string{"algo.Request"}},
	}
	for _, h := range habits {
		row, ok := rows[h.name]
		if !ok {
			t.Errorf("habit %q has no row here", h.name)
			continue
		}
		folder := ""
		if len(h.folders) > 0 {
			folder = h.folders[0] + "/"
		}
		find := func(text string) int {
			got, _, err := check(fstest.MapFS{folder + "a.md": {Data: []byte(text)}}, []habit{h}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return len(got)
		}
		for _, text := range row.found {
			if find(text) == 0 {
				t.Errorf("%s: not found in %q", h.name, text)
			}
		}
		for _, text := range row.fine {
			if find(text) > 0 {
				t.Errorf("%s: found in %q", h.name, text)
			}
		}
	}
}

// TestWordsAreFoundOutsideOfCode finds a word in each kind of text, with its line, and not where text
// is code.
func TestWordsAreFoundOutsideOfCode(t *testing.T) {
	bad := []habit{{name: "bad", pattern: `\bbad word\b`, names: true}}
	for _, c := range []struct {
		file, text string
		want       []int // lines
	}{
		{"a.go", "package p\n\n// A bad\n// word.\nvar x = \"a bad word\"\n", []int{3, 5}},
		{"a.go", "package p\n\nimport _ \"bad word\"\n\nfunc TestBadWord() {}\n\ntype t struct{ badWord int }\n", []int{5, 7}},
		{"a.go", "package p\n\n// An example:\n//\n//\ta bad word\n\n//go:generate bad word\nvar x = `\n bad word`\n", []int{9}},
		{"bad_word.go", "package p\n", []int{1}},
		{"a.md", "# A bad word\n\ntext\nbad\nword\n\n- item\n- a bad word\n\n| cell | bad word |\n", []int{1, 4, 8, 10}},
		{"a.md", "```\nbad word\n```\n\n`bad word` and [link](bad word)\n", nil},
		{"a.lua", "-- bad\n-- word\nlocal x = 1 -- bad word\nreturn 'a bad word'\n", []int{1, 3, 4}},
		{"a.yaml", "# bad\n# word\n#> bad word\nname: \"bad word\" # bad word\n", []int{1, 4, 4}},
		{"a.sh", "echo \"a bad word\" # bad word\n", []int{1, 1}},
		{"a.json", "{\"description\": \"a bad word\"}\n", []int{1}},
		{"Makefile", "all: ## a bad word\n", []int{1}},
		{"a.sum", "bad word", nil},
		{"testdata/a.md", "bad word", nil},
		{"x/testdata/a.md", "bad word", nil},
	} {
		got, _, err := check(fstest.MapFS{c.file: {Data: []byte(c.text)}}, bad, nil)
		if err != nil {
			t.Fatal(err)
		}
		var lines []int
		for _, f := range got {
			lines = append(lines, f.line)
		}
		if slices.Sort(lines); !slices.Equal(lines, c.want) {
			t.Errorf("%s %q: found in lines %v, want %v", c.file, c.text, lines, c.want)
		}
	}
}

// TestExceptionsCoverOnlyWhatTheyName covers exactly what an exception names, and reports the exceptions
// that nothing needs.
func TestExceptionsCoverOnlyWhatTheyName(t *testing.T) {
	repo := fstest.MapFS{
		"a.md": {Data: []byte("A very\nbad word here. A bad word there.")},
		"b.md": {Data: []byte("A very bad word.")},
	}
	bad := []habit{{name: "bad", pattern: `\bbad word\b`}}
	got, unused, err := check(repo, bad, []exception{
		{"a.md", "very bad word", "the test"},
		{"b.md", "another bad word", "the test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].file != "a.md" || got[0].line != 2 || got[1].file != "b.md" {
		t.Errorf("found %v", got)
	}
	if len(unused) != 1 || unused[0].file != "b.md" {
		t.Errorf("unused are %v", unused)
	}
	for _, e := range exceptions {
		if e.reason == "" {
			t.Errorf("the exception %q in %s has no reason", e.text, e.file)
		}
	}
}

// The report counts findings by folder and by habit, the most frequent first.
func TestReportCountsFindings(t *testing.T) {
	bad, worse := habit{name: "bad"}, habit{name: "worse"}
	var b strings.Builder
	writeReport(&b, []finding{{file: "a/x.go", habit: bad}, {file: "b/y.go", habit: worse}, {file: "b/z.go", habit: worse}})
	if got, want := b.String(), fmt.Sprintf("%6d  b\n%6d  a\n\n%6d  worse\n%6d  bad\n\n%6d  findings\n", 2, 1, 2, 1, 3); got != want {
		t.Errorf("reports\n%s\nwant\n%s", got, want)
	}
	if !below("a/b.go", []string{"a/"}) || below("ab/b.go", []string{"a"}) || !below("x", nil) {
		t.Error("paths are not matched by folder")
	}
}
