// Command manual writes the man pages of sluice and its completions for shells into a folder.
package main

import (
	"fmt"
	"os"

	"github.com/sluicehq/sluice/server/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "manual: give the folder to write to")
		os.Exit(2)
	}
	if err := cli.WriteManual(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}
