package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/spf13/cobra"
)

func newValidate() *cobra.Command {
	var connect, brief bool
	var lastGood string
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files",
		Long: "Check configuration files. All mistakes are printed at once, each with its position\n" +
			"and a remedy. A file without mistakes is described rule by rule, so that you can\n" +
			"compare it with what you meant. The exit status is 0 if no file has a mistake.\n\n" +
			"A folder is read as the configuration of Envoy's rate limit service, together with\n" +
			"the environment variables of its deployments.\n\n" +
			"With --connect, the store of each file is checked too: whether the server can reach\n" +
			"it, and whether its user has the permissions that limits need. A file of saved\n" +
			"states is read, and its folder must be writable.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("validate needs a file: sluice validate FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				s := settings{config: name, lastGood: cmp.Or(lastGood, os.Getenv("SLUICE_LAST_GOOD"))}
				f, _, err := s.load()
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
				for _, w := range s.warnings {
					text += "  warning: " + w + "\n"
				}
				for _, w := range f.Warnings() {
					text += "  warning: " + w.Error() + "\n"
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
					states, err := app.CheckStates(f)
					if err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", name, err))
					} else if states != "" {
						text += "  " + states + "\n"
					}
				}
				if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
					return err
				}
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&connect, "connect", false, "connect to the store too")
	cmd.Flags().StringVar(&lastGood, "last-good", "", "`FILE` that serve keeps a copy in, to check that nothing else uses it")
	cmd.Flags().BoolVarP(&brief, "brief", "b", false, "do not describe the rules")
	return cmd
}

// describeRules describes the classes and rules of a file.
func describeRules(f *policyfile.File) (string, error) {
	o, err := f.PolicyOptions()
	if err != nil {
		return "", err
	}
	p, err := policy.New(o)
	if err != nil {
		return "", err
	}
	return describe.Policy(p, &o, f.Store.Redis != nil) + describeOverride(f, &o), nil
}

// describeOverride warns of rules on methods where the service takes the method from a header.
func describeOverride(f *policyfile.File, o *policy.Options) string {
	matches := func(m *policy.Match) bool { return len(m.Methods) > 0 }
	if !f.Upstream.MethodOverride || !slices.ContainsFunc(o.Rules, func(r policy.Rule) bool { return matches(&r.Match) }) {
		return ""
	}
	return "  rules match the method of the request line, and upstream.method_override passes on headers that replace it\n"
}
