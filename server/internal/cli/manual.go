package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra/doc"
)

// WriteManual writes a man page for each command, and completions for bash, fish and zsh, into a folder. The date of
// the pages is SOURCE_DATE_EPOCH, or 1970 without it, so that the same commands give the same bytes.
func WriteManual(dir string) error {
	root := newRoot()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	date := time.Unix(seconds, 0).UTC()
	head := &doc.GenManHeader{Title: "SLUICE", Section: "1", Date: &date, Source: "Sluice " + versionName(), Manual: "Sluice"}
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
