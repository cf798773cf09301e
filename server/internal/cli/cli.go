// Package cli is the command line: it reads flags, environment and file, and
// hands the result to package app.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the program and returns its exit status: 0 if all went well, 1 after
// an error.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal drains, the second one ends the program at once.
	context.AfterFunc(ctx, stop)
	if err := newRoot().ExecuteContext(ctx); err != nil {
		text := strings.TrimRight(err.Error(), "\n")
		if !strings.HasPrefix(text, "sluice") {
			text = "sluice: " + text
		}
		fmt.Fprintln(os.Stderr, text)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Limit rates exactly",
		Long: "Sluice limits rates: in front of a service, as a reverse proxy, and for other\n" +
			"programs, as a service that decides.\n\n" +
			"To see it work: sluice serve",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newServe(), newValidate(), newVersion())
	return root
}
