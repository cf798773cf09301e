package cli

import (
	"errors"
	"fmt"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/spf13/cobra"
)

func newValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files",
		Long: "Check configuration files: all that is wrong with them is printed at once, each\n" +
			"mistake with its place and a remedy. The exit status is 0 if there is none.",
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
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %d %s\n", name, len(f.Rules), noun); err != nil {
					return err
				}
			}
			return errors.Join(errs...)
		},
	}
}
