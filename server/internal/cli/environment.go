package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const variablePrefix = "SLUICE_"

// ofKubernetes matches the variables that Kubernetes sets for services whose names begin with sluice.
var ofKubernetes = regexp.MustCompile(`^SLUICE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// checkEnvironment returns an error for each variable that is probably a misspelt setting, and the names of other
// variables that begin as settings do and are none. The file may name variables of its own; it may be nil.
func checkEnvironment(f *config.File) (unknown []string, err error) {
	known := variables()
	var errs []error
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || slices.Contains(known, rest) || f != nil && slices.Contains(f.Variables(), name) || ofKubernetes.MatchString(name) {
			continue
		}
		if meant := reader.NearestWord(rest, known); meant != "" {
			errs = append(errs, fmt.Errorf("%s is not a setting; did you mean %s%s? Unset it, or correct its name", name, variablePrefix, meant))
			continue
		}
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	return unknown, errors.Join(errs...)
}

// variables returns the variables of all commands, without their prefix.
func variables() []string {
	names := []string{"CONFIG"}
	for _, name := range []string{adminTokenVariable, apiTokenVariable, readTokenVariable} {
		names = append(names, strings.TrimPrefix(name, variablePrefix))
	}
	add := func(f *pflag.Flag) { names = append(names, strings.TrimPrefix(variable(f), variablePrefix)) }
	server := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	new(settings).register(server)
	server.VisitAll(add)
	var c client
	c.register(&cobra.Command{})
	c.flags.VisitAll(add)
	return names
}
