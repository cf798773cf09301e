// Mutants breaks promises of the documentation in the code, one after another, and checks that the test that proves
// each of them fails. The tables promises_*.go list the mutations.
//
// Usage, with the repository's top folder as the first argument:
//
//	mutants [-run pattern] folder
//
// No file changes: the compiler reads the changed text in place of the file. The pattern picks mutations by their promise,
// file or test. Mutants exits with status 1 if a mutation no longer applies, does not compile, or is not caught.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func main() {
	pick := flag.String("run", "", "try only the mutations whose promise, file or test matches the pattern")
	flag.Parse()
	pattern, err := regexp.Compile(*pick)
	if err != nil || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-run pattern] folder", err)
		os.Exit(2)
	}
	tried, survived := 0, 0
	for _, m := range mutations() {
		if !pattern.MatchString(m.String()) {
			continue
		}
		tried++
		began := time.Now()
		result := "caught"
		if err := m.try(flag.Arg(0)); err != nil {
			survived++
			result = "NOT CAUGHT: " + err.Error()
		}
		fmt.Printf("%5.1f s  %s: %s\n", time.Since(began).Seconds(), m, result)
	}
	fmt.Printf("%d mutations, %d not caught\n", tried, survived)
	if survived > 0 || tried == 0 {
		os.Exit(1)
	}
}
