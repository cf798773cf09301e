package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluicehq/sluice/internal/file/reader"
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
			e := envoyEnvironment{output: regular(cmd.OutOrStdout())}
			f, err := e.load(args[0])
			if err != nil {
				return err
			}
			text := f.YAML()
			if len(text) > reader.MaxFileSize {
				return fmt.Errorf("the file would have %d bytes, and the server reads at most %d; serve the folder itself: sluice serve --envoy-config %s", len(text), reader.MaxFileSize, args[0])
			}
			for _, w := range e.warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w)
			}
			for _, w := range f.Warnings() {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w.Error())
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.AddCommand(envoy)
	return cmd
}

// regular returns the file that a command writes to; nil if that is not a regular file.
func regular(w io.Writer) os.FileInfo {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}
