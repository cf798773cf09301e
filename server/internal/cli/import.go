package cli

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Write the configuration of another program as Sluice's own",
	}
	envoy := &cobra.Command{
		Use:   "envoy DIR",
		Short: "Write the configuration of Envoy's rate limit service as Sluice's own",
		Long: "Read the configuration of Envoy's rate limit service (github.com/envoyproxy/ratelimit)\n" +
			"from the files of DIR and from the environment variables of its deployments, such as\n" +
			"REDIS_URL, and write it as a file of Sluice. The server decides the same with both.",
		Example: "  sluice import envoy config > sluice.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("import envoy needs the folder of the configuration: sluice import envoy DIR")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var e envoyEnvironment
			f, err := e.load(args[0])
			if err != nil {
				return err
			}
			for _, w := range e.warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w)
			}
			for _, w := range f.Warnings() {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w.Error())
			}
			_, err = bytes.NewReader(f.YAML()).WriteTo(cmd.OutOrStdout())
			return err
		},
	}
	cmd.AddCommand(envoy)
	return cmd
}
