package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A habit is one row of the table: a way of writing that readers stumble over.
type habit struct {
	name    string
	pattern string   // a regular expression, in which a space matches any white space; it ignores case
	except  string   // a finding that this expression overlaps is not one
	instead string   // what to write
	folders []string // where it is checked: everywhere if empty
	names   bool     // whether it is also checked in names of declarations and files, as words
}

// An exception is one passage in which a habit is right.
type exception struct {
	file, text string // the text contains the finding
	reason     string
}

// A finding is one passage of the source that has a habit.
type finding struct {
	file  string
	line  int
	text  string
	habit habit
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q (%s): %s", f.file, f.line, f.text, f.habit.name, f.habit.instead)
}

// skipped are folders and files whose text is not ours, is made from text that is
// checked, or is the table itself and its test.
var skipped = []string{".git", ".cache", "bin", "testdata", "tools/wordcheck/habits.go", "tools/wordcheck/check_test.go"}

// check returns the findings in all files of a repository, and the exceptions
// that no finding needed.
func check(repo fs.FS, habits []habit, exceptions []exception) ([]finding, []exception, error) {
	c := checker{used: make([]bool, len(exceptions)), exceptions: exceptions}
	for _, h := range habits {
		r := rule{habit: h, pattern: compile(h.pattern)}
		if h.except != "" {
			r.except = compile(h.except)
		}
		c.rules = append(c.rules, r)
	}
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipped, name) || slices.Contains(skipped, path.Base(name)) {
				return fs.SkipDir
			}
			return nil
		}
		read := reader(name)
		if read == nil || slices.Contains(skipped, name) {
			return nil
		}
		text, err := fs.ReadFile(repo, name)
		if err != nil {
			return err
		}
		blocks, err := read(name, string(text))
		if err != nil {
			return err
		}
		c.file(name, blocks)
		return nil
	})
	var unused []exception
	for i, e := range exceptions {
		if !c.used[i] {
			unused = append(unused, e)
		}
	}
	return c.findings, unused, err
}

type rule struct {
	habit           habit
	pattern, except *regexp.Regexp
}

// compile makes an expression that ignores case and crosses the ends of lines.
func compile(pattern string) *regexp.Regexp {
	return regexp.MustCompile("(?i)" + strings.ReplaceAll(pattern, " ", `\s+`))
}

type checker struct {
	rules      []rule
	exceptions []exception
	used       []bool
	findings   []finding
}

func (c *checker) file(name string, blocks []block) {
	for _, b := range blocks {
		for _, r := range c.rules {
			if !below(name, r.habit.folders) || b.name && !r.habit.names {
				continue
			}
			for _, at := range r.pattern.FindAllStringIndex(b.text, -1) {
				if r.except != nil && overlaps(r.except, b.text, at) || c.excepted(name, b.text, at) {
					continue
				}
				text := strings.Join(strings.Fields(b.text[at[0]:at[1]]), " ")
				c.findings = append(c.findings, finding{name, b.line(at[0]), text, r.habit})
			}
		}
	}
}

func overlaps(r *regexp.Regexp, text string, at []int) bool {
	return slices.ContainsFunc(r.FindAllStringIndex(text, -1), func(found []int) bool {
		return found[0] < at[1] && at[0] < found[1]
	})
}

// excepted reports whether an exception covers this part of a text.
func (c *checker) excepted(file, text string, at []int) bool {
	for i, e := range c.exceptions {
		if e.file == file && overlaps(compile(regexp.QuoteMeta(e.text)), text, at) {
			c.used[i] = true
			return true
		}
	}
	return false
}
