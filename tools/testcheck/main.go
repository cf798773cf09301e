// Testcheck checks that a red test explains itself: its name is unique in the whole repository, and has two words or more for
// its promise, and its messages have words.
//
// Usage, with the repository's top folder as the argument:
//
//	testcheck folder
//
// It prints one line for each finding, and then exits with status 1.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: testcheck folder")
		os.Exit(2)
	}
	findings, err := check(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcheck:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Fprintln(os.Stderr, f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}
