package cli

import (
	"net/http"

	"github.com/spf13/cobra"
)

func newHealth() *cobra.Command {
	var c client
	var live bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Report whether a running server takes traffic",
		Long: "Get /readyz of a running server, and print the answer. The exit status is\n" +
			"0 if the server takes traffic and 1 if not, as health checks of containers want.\n" +
			"With --live, get /livez: whether the process still answers, also while it drains.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/readyz"
			if live {
				path = "/livez"
			}
			text, err := c.answer(cmd.Context(), http.MethodGet, path, nil)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	c.register(cmd)
	cmd.Flags().BoolVar(&live, "live", false, "check whether the process lives, instead of whether it takes traffic")
	return cmd
}
