package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sluicehq/sluice/server/internal/insight/logs"
	"github.com/spf13/cobra"
)

func newLogFormat() *cobra.Command {
	var q fromLogs
	var file string
	cmd := &cobra.Command{
		Use:   "logformat SERVER",
		Short: "Print the log format that a replay of a configuration needs",
		Long: "Print the configuration of a server's access log that has all that the rules of a\n" +
			"configuration read, and the --format with which sluice replay reads it. SERVER is\n" +
			"one of " + strings.Join(logs.Servers(), ", ") + ".",
		Example: "  sluice logformat nginx -c sluice.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("logformat needs a server: sluice logformat SERVER -c FILE; give one of %s", strings.Join(logs.Servers(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if file = cmp.Or(file, os.Getenv("SLUICE_CONFIG")); file == "" {
				return errors.New("logformat needs a configuration: sluice logformat SERVER -c FILE")
			}
			p, _, err := q.policy(file)
			if err != nil {
				return err
			}
			wanted, err := p.Wanted()
			if err != nil {
				return err
			}
			format, err := logs.LogFormat(args[0], wanted)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), format)
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "`FILE` of the configuration (default SLUICE_CONFIG)")
	return cmd
}
