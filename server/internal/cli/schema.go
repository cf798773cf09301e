package cli

import (
	"github.com/sluicehq/sluice/policyfile"
	"github.com/spf13/cobra"
)

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configuration files",
		Long: "Print the JSON Schema of configuration files, for editors that check and complete\n" +
			"YAML by one. Such an editor finds it by itself in a file that begins with\n\n" +
			"  # yaml-language-server: $schema=https://raw.githubusercontent.com/sluicehq/sluice/main/policyfile/schema.json\n\n" +
			"or with the path of what this command has printed. What sluice validate knows goes further.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(policyfile.Schema())
			return err
		},
	}
}
