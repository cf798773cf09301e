// Package cli is the command line: it reads flags, environment and file, and passes the result to package app.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// signalGrace is how long after the first signal further signals count as copies: a supervisor may signal both
// the process and its group.
const signalGrace = time.Second

// Main runs the program and returns its exit status: 0 if all went well, 1 after
// an error.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal drains, and a later one ends the program at once.
	context.AfterFunc(ctx, func() { time.AfterFunc(signalGrace, stop) })
	if err := Root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, describeError(err))
		return 1
	}
	return 0
}

// describeError adds the name of the program to an error. Mistakes in files begin with their position instead,
// which editors and terminals find.
func describeError(err error) string {
	text := strings.TrimRight(err.Error(), "\n")
	var mistakes reader.Errors
	if errors.As(err, &mistakes) && mistakes[0].File != "" && strings.HasPrefix(text, mistakes[0].Error()) || strings.HasPrefix(text, "sluice: ") {
		return text
	}
	return "sluice: " + text
}

// Root returns a new command sluice with its subcommands.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Limit rates exactly",
		Long: "Sluice limits rates: in front of a service, as a reverse proxy, and for other\n" +
			"programs, as a service that decides.\n\n" +
			"To see it work: sluice serve",
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Name() == "serve" || cmd.Name() == "validate" || cmd.Name() == "version" || cmd.Name() == "help" {
				return nil // serve and validate also read which variables their files name
			}
			_, err := checkEnvironment(nil)
			return err
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newServe(), newValidate(), newExplain(), newReplay(), newSuggest(), newLogFormat(), newImport(), newSchema(),
		newPeek(), newGrant(), newReset(), newTop(), newKeys(), newHybrid(), newBan(), newUnban(), newBans(), newOverride(), newHealth(), newVersion())
	return root
}

// flagError adds the flag that was most likely meant to the error of an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := reader.NearestWord(unknown.GetSpecifiedName(), known); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}
