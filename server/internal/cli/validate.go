package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/sluicehq/sluice/server/internal/words"
	"github.com/spf13/cobra"
)

func newValidate() *cobra.Command {
	var connect, brief bool
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files",
		Long: "Check configuration files: all that is wrong with them is printed at once, each\n" +
			"mistake with its place and a remedy. The exit status is 0 if there is none, and then\n" +
			"each rule is put into words, to be compared with what was meant.\n\n" +
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
				if !brief {
					rules, err := describeRules(f)
					if err != nil {
						errs = append(errs, err)
						continue
					}
					text += rules
				}
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
	cmd.Flags().BoolVarP(&brief, "brief", "b", false, "leave the rules out")
	return cmd
}

// describeRules puts classes and rules into words.
func describeRules(f *policyfile.File) (string, error) {
	o, err := f.PolicyOptions()
	if err != nil {
		return "", err
	}
	p, err := policy.New(o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i := range o.Classes {
		fmt.Fprintf(&b, "  class %s: %s\n", o.Classes[i].Name, words.Class(&o.Classes[i]))
	}
	for _, r := range p.Rules() {
		fmt.Fprintf(&b, "  rule %s\n", r.Name)
		writeLines(&b, words.Rule(r, f.Store.Redis != nil))
	}
	if o.Default == policy.Deny {
		b.WriteString("  what no rule is for is refused\n")
	}
	return b.String(), nil
}

// writeLines writes what is said of a rule.
func writeLines(b *strings.Builder, lines []words.Line) {
	for _, l := range lines {
		fmt.Fprintf(b, "    %-10s %s\n", l.About, l.Text)
	}
}
