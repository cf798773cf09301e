// Command manual writes the man pages of sluice and its completions for shells into a folder. The date of the pages is
// SOURCE_DATE_EPOCH, or 1970 without it, so that the same commands give the same bytes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/server/internal/cli"
	"github.com/spf13/cobra/doc"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "manual: give the folder to write to")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// write has the code that needs package doc, so that sluice does not link what makes man pages.
func write(dir string) error {
	root := cli.Root()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	date := time.Unix(seconds, 0).UTC()
	head := &doc.GenManHeader{Title: "SLUICE", Section: "1", Date: &date, Source: "Sluice " + cli.Version(), Manual: "Sluice"}
	if err := doc.GenManTree(root, head, dir); err != nil {
		return err
	}
	if err := root.GenBashCompletionFileV2(filepath.Join(dir, "sluice.bash"), true); err != nil {
		return err
	}
	if err := root.GenFishCompletionFile(filepath.Join(dir, "sluice.fish"), true); err != nil {
		return err
	}
	return root.GenZshCompletionFile(filepath.Join(dir, "_sluice"))
}
