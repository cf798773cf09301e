package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/sluicehq/sluice/server/internal/store/local"
	"github.com/sluicehq/sluice/server/internal/store/remote"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newValidate() *cobra.Command {
	var connect, brief, fileOnly bool
	var lastGood string
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configuration files",
		Long: "Check configuration files. All mistakes are printed at once, each with its position\n" +
			"and a remedy. A file without mistakes is described rule by rule, so that you can\n" +
			"compare it with what you meant. The exit status is 0 if no file has a mistake.\n\n" +
			"Everything that serve reads at its start is read too: certificates, tokens, secrets,\n" +
			"and whether the server may write where it logs and saves. So run it as the user of the\n" +
			"server, with its environment. It changes nothing and opens no port. With --file-only,\n" +
			"only the file and the lists that it names are read, such as on another machine.\n\n" +
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
				s, err := settingsOf(name, lastGood)
				if err != nil {
					return err
				}
				f, err := s.validate(fileOnly)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				text, err := s.describe(f, name, brief)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if connect {
					found, err := checkStore(cmd.Context(), &f.Store)
					if err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", name, err))
					}
					text += found
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
	cmd.Flags().BoolVar(&fileOnly, "file-only", false, "do not read certificates, tokens and secrets, nor look at the folders of logs")
	cmd.Flags().BoolVarP(&brief, "brief", "b", false, "do not describe the rules")
	return cmd
}

// settingsOf returns the settings with which serve would start on a file in this environment.
func settingsOf(file, lastGood string) (*settings, error) {
	s := new(settings)
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.register(flags)
	if err := fromEnvironment(flags); err != nil {
		return nil, err
	}
	s.config, s.envoy, s.lastGood = file, "", cmp.Or(lastGood, s.lastGood)
	return s, nil
}

// validate reads the file and, unless only the file is wanted, everything that serve reads at its start.
func (s *settings) validate(fileOnly bool) (*config.File, error) {
	f, _, err := s.load()
	if err != nil || fileOnly {
		return f, err
	}
	_, misspelt := checkEnvironment(f)
	return f, errors.Join(misspelt, app.Check(s.options(f)), lastGood(s.lastGood).check(false))
}

// describe describes a file without mistakes, and the warnings about it.
func (s *settings) describe(f *config.File, name string, brief bool) (text string, err error) {
	noun := "rules"
	if len(f.Rules) == 1 {
		noun = "rule"
	}
	text = fmt.Sprintf("%s: ok, %d %s\n", name, len(f.Rules), noun)
	if !brief {
		rules, err := describeRules(f)
		if err != nil {
			return "", err
		}
		text += rules
	}
	for line := range strings.Lines(describeStore(f)) {
		text += "  " + strings.TrimRight(line, "\n") + "\n"
	}
	warnings := slices.Clip(s.warnings)
	for _, w := range f.Warnings() {
		warnings = append(warnings, w.Error())
	}
	if w := memoryWarning(f); w != "" {
		warnings = append(warnings, w)
	}
	for _, w := range warnings {
		text += "  warning: " + w + "\n"
	}
	return text, nil
}

// describeRules describes the classes and rules of a file.
func describeRules(f *config.File) (string, error) {
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
func describeOverride(f *config.File, o *policy.Options) string {
	matches := func(m *policy.Match) bool { return len(m.Methods) > 0 }
	if !f.Upstream.MethodOverride || !slices.ContainsFunc(o.Rules, func(r policy.Rule) bool { return matches(&r.Match) }) {
		return ""
	}
	return "  rules match the method of the request line, and upstream.method_override passes on headers that replace it\n"
}

// checkStore connects to the store, or reads its file of states. It returns what it found, in lines.
func checkStore(ctx context.Context, s *config.Store) (text string, err error) {
	if s.Redis == nil {
		if text, err = local.Check(&s.Memory); text != "" {
			text = "  " + text + "\n"
		}
		return text, err
	}
	report, err := remote.Check(ctx, s.Redis)
	if err == nil && report.Server != "" {
		text = "  the store answers: " + report.Server + "\n"
	}
	for _, w := range report.Warnings {
		text += "  warning: " + w + "\n"
	}
	return text, err
}
