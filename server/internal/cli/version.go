package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/spf13/cobra"
)

// version, commit and date are set for releases, as in -ldflags "-X
// github.com/sluicehq/sluice/server/internal/cli.version=v1.2.3".
var version, commit, date string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// Version returns the release, or the version in the build information.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// versionLine describes the build: version, commit, its date, the version of Go, and the system.
func versionLine() string {
	revision, when, changed := commit, date, ""
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = s.Value
			case "vcs.time":
				when = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					changed = "+changes"
				}
			}
		}
	}
	line := "sluice " + Version()
	if revision != "" {
		line += " " + revision[:min(12, len(revision))] + changed
	}
	if when != "" {
		line += " " + when
	}
	return fmt.Sprintf("%s %s %s/%s", line, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configuration files",
		Long: "Print the JSON Schema of configuration files, for editors that check and complete YAML.\n" +
			"Such an editor finds the schema by itself in a file that begins with\n\n" +
			"  # yaml-language-server: $schema=https://raw.githubusercontent.com/sluicehq/sluice/main/policyfile/schema.json\n\n" +
			"or with the path of a file with the output of this command. sluice validate checks more.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(policyfile.Schema())
			return err
		},
	}
}
