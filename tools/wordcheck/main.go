// Wordcheck searches comments, documentation, messages and names for habits of
// writing that make a reader stop: the table in habits.go has a pattern for each,
// what to write instead, and the exceptions with their reasons.
//
// Usage, with the repository's top folder as the first argument:
//
//	wordcheck [-report] [folder [path...]]
//
// It prints one line for each finding and then exits with status 1. With -report
// it counts the findings of each folder and of each habit, and exits with status 0.
// Paths limit the check to files and folders below them.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	report := flag.Bool("report", false, "count the findings of each folder and habit, and exit with status 0")
	flag.Parse()
	dir, paths := ".", []string(nil)
	if args := flag.Args(); len(args) > 0 {
		dir, paths = args[0], args[1:]
	}
	findings, unused, err := check(os.DirFS(dir), habits, exceptions)
	if err != nil {
		fmt.Fprintln(os.Stderr, "wordcheck:", err)
		os.Exit(2)
	}
	findings = slices.DeleteFunc(findings, func(f finding) bool { return !below(f.file, paths) })
	if *report {
		writeReport(os.Stdout, findings)
		return
	}
	for _, f := range findings {
		fmt.Fprintln(os.Stderr, f)
	}
	if len(paths) == 0 {
		for _, e := range unused {
			fmt.Fprintf(os.Stderr, "tools/wordcheck/habits.go: the exception %q in %s matches nothing: delete it\n", e.text, e.file)
		}
	}
	if len(findings) > 0 || len(unused) > 0 && len(paths) == 0 {
		os.Exit(1)
	}
}

// below reports whether a file is one of the paths or in one of them. No paths
// mean all files.
func below(file string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
		p = path.Clean(p)
		return p == "." || file == p || strings.HasPrefix(file, p+"/")
	})
}

// writeReport prints how many findings each folder and each habit has, the most
// frequent first.
func writeReport(w io.Writer, findings []finding) {
	folders, names := map[string]int{}, map[string]int{}
	for _, f := range findings {
		folders[path.Dir(f.file)]++
		names[f.habit.name]++
	}
	for _, counts := range []map[string]int{folders, names} {
		var keys []string
		for k := range counts {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b string) int {
			if counts[a] != counts[b] {
				return counts[b] - counts[a]
			}
			return strings.Compare(a, b)
		})
		for _, k := range keys {
			_, _ = fmt.Fprintf(w, "%6d  %s\n", counts[k], k) // the terminal's
		}
		_, _ = fmt.Fprintln(w)
	}
	_, _ = fmt.Fprintf(w, "%6d  findings\n", len(findings))
}
