package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/spf13/cobra"
)

func newValidate() *cobra.Command {
	var connect bool
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files",
		Long: "Check configuration files: all that is wrong with them is printed at once, each\n" +
			"mistake with its place and a remedy. The exit status is 0 if there is none.\n\n" +
			"With --connect, the store that a file names is asked too: whether it can be reached,\n" +
			"and whether this user may do there what limits need.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("validate needs a file: sluice validate FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				f, err := policyfile.Load(name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				noun := "rules"
				if len(f.Rules) == 1 {
					noun = "rule"
				}
				text := fmt.Sprintf("%s: ok, %d %s\n", name, len(f.Rules), noun)
				for line := range strings.Lines(app.DescribeStore(f)) {
					text += "  " + strings.TrimRight(line, "\n") + "\n"
				}
				if connect {
					report, err := app.CheckStore(cmd.Context(), f)
					if err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", name, err))
					} else if report.Server != "" {
						text += "  the store answers: " + report.Server + "\n"
					}
					for _, w := range report.Warnings {
						text += "  warning: " + w + "\n"
					}
				}
				if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
					return err
				}
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&connect, "connect", false, "ask the store, too")
	return cmd
}
