package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/spf13/cobra"
)

func newServe() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Limit traffic, and answer decisions",
		Long: "Limit the traffic that passes through a reverse proxy, and answer other programs'\n" +
			"questions. Without a configuration it runs a quick-start policy in front of a\n" +
			"built-in service.\n\n" +
			"Each flag can be given in the environment: --listen-proxy is SLUICE_LISTEN_PROXY.\n" +
			"Flags win over the environment, and that over the file. The admin token is taken\n" +
			"from SLUICE_ADMIN_TOKEN or from a file, since flags are there for everybody to see.\n\n" +
			"A configuration file that changes is read anew, and so it is on SIGHUP: its rules\n" +
			"replace those before all at once, or nothing does if there is a mistake.\n\n" +
			"SIGTERM or Ctrl-C lets the requests under way end; one that comes more\n" +
			"than a second after the first does not wait.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("serve takes no %q; give a configuration file as --config %[1]s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags()); err != nil {
				return err
			}
			reloads := newReloader(s.config)
			defer reloads.close()
			f, quickStart, err := s.load()
			if err != nil {
				return err
			}
			reloads.loaded(f)
			token, err := adminToken(&f.Admin, s.adminTokenFile)
			if err != nil {
				return err
			}
			logger, err := newLogger(cmd.ErrOrStderr(), f.Log)
			if err != nil {
				return err
			}
			o := app.Options{File: f, Token: token, Version: versionName(), Logger: logger}
			if !quickStart {
				o.Load = func() (*policyfile.File, error) {
					f, _, err := s.load()
					if err != nil {
						return nil, err
					}
					reloads.loaded(f)
					return f, nil
				}
			}
			a, err := app.New(o)
			if err != nil {
				return err
			}
			if err := a.Announce(cmd.OutOrStdout(), quickStart); err != nil {
				a.Close()
				return fmt.Errorf("printing where it listens: %w", err)
			}
			ctx, stop := context.WithCancel(cmd.Context())
			var reloading sync.WaitGroup
			reloading.Go(func() { reloads.run(ctx, a, logger) })
			defer reloading.Wait()
			defer stop()
			return a.Run(ctx)
		},
	}
	s.register(cmd.Flags())
	return cmd
}
