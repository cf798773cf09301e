package cli

import (
	"net/http"

	"github.com/spf13/cobra"
)

func newHealth() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Report whether a running server takes traffic",
		Long: "Get /readyz of a running server, and print the answer. The exit status is\n" +
			"0 if the server takes traffic and 1 if not, as health checks of containers want.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := c.answer(cmd.Context(), http.MethodGet, "/readyz", nil)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	c.register(cmd)
	return cmd
}
