package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"

	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/systemd"
	"github.com/spf13/cobra"
)

func newServe() *cobra.Command {
	var s settings
	var check bool
	cmd := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Limit traffic as a proxy, and decide for other programs",
		Long: "Limit the traffic that passes through a reverse proxy, and decide for other programs\n" +
			"over HTTP. FILE is the configuration. Without one, a quick-start policy protects a\n" +
			"built-in service.\n\n" +
			"Each flag can be set in the environment: --listen-proxy is SLUICE_LISTEN_PROXY, and\n" +
			"FILE is SLUICE_CONFIG. Flags override the environment, which overrides the file. The\n" +
			"tokens come from SLUICE_ADMIN_TOKEN, SLUICE_API_TOKEN and SLUICE_READ_TOKEN, or from files,\n" +
			"because other users of the machine can see flags.\n\n" +
			"With --envoy-config, the server replaces Envoy's rate limit service: it reads the files\n" +
			"and the environment variables of that server, such as REDIS_URL, and takes its ports,\n" +
			"8080 for HTTP and 8081 for gRPC. Without FILE, RUNTIME_ROOT selects such a folder too.\n\n" +
			"The server reloads a configuration file when it changes, and on SIGHUP. The new rules\n" +
			"replace the old rules all at once. A file with a mistake changes nothing.\n\n" +
			"After SIGTERM or Ctrl-C, requests under way may end. A second signal, more than a\n" +
			"second later, ends the program at once.",
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd.Flags()); err != nil {
				return err
			}
			s.setFile(args)
			if check {
				_, err := s.validate(false)
				return err
			}
			return s.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "check what serve reads at its start, as validate does, and exit")
	s.register(cmd.Flags())
	return cmd
}

// serve runs a server until the context ends. It prints where the server listens, and logs to another output.
func (s *settings) serve(ctx context.Context, out, logs io.Writer) error {
	reloads := newReloader(cmp.Or(s.envoyFolder(), s.config))
	defer reloads.close()
	kept := lastGood(s.lastGood)
	f, quickStart, earlier, err := s.loadOrLast()
	if f == nil {
		return err
	}
	unknown, misspelt := checkEnvironment(f)
	if err := errors.Join(misspelt, err, kept.check(quickStart)); err != nil {
		return err
	}
	reloads.loaded(f)
	o := s.options(f)
	tokens, err := s.tokens(f)
	if err != nil {
		return err
	}
	o.Token, o.APIToken, o.ReadToken = tokens.Admin, tokens.API, tokens.Read
	logger, err := newLogger(logs, f.Log)
	if err != nil {
		return err
	}
	s.warn(logger, f, quickStart, unknown)
	o.Logger, o.Refused, o.Since = logger, earlier.refused, earlier.saved
	if kept != "" {
		o.Keep = kept.save
		if err := kept.clean(); err != nil {
			return err
		}
	}
	if !quickStart {
		o.Load = func() (*config.File, error) {
			f, _, err := s.load()
			if err != nil {
				return nil, err
			}
			reloads.loaded(f)
			return f, nil
		}
	}
	if o.Passed, err = systemd.Sockets(); err != nil {
		return err
	}
	o.Manager = &systemd.Manager{Logger: logger}
	a, err := app.New(o)
	if err != nil {
		return err
	}
	if err := a.Announce(out, quickStart); err != nil {
		a.Close()
		return fmt.Errorf("printing where it listens: %w", err)
	}
	defer paceCollector(a.StateBytes)()
	log.SetFlags(0)
	log.SetOutput(sampled.HTTP(logger).Writer()) // for clients of package net/http, which quote what arrives
	ctx, stop := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	reloading.Go(func() { reloads.run(ctx, a, logger) })
	defer reloading.Wait()
	defer stop()
	return a.Run(ctx)
}

// warn logs warnings about the configuration and the environment.
func (s *settings) warn(logger *slog.Logger, f *config.File, quickStart bool, unknown []string) {
	for _, name := range unknown {
		logger.Warn("a variable begins as settings do and is none, so it is ignored", "variable", name)
	}
	if folder := s.envoyFolder(); folder != "" {
		logger.Info("the configuration is of Envoy's rate limit service", "folder", folder)
	}
	for _, w := range s.warnings {
		logger.Warn("the environment of Envoy's rate limit service does not fit", "warning", w)
	}
	if !quickStart {
		for _, w := range f.Warnings() {
			logger.Warn("a setting of the configuration has probably no effect, or not the intended one", "warning", w)
		}
	}
	if w := memoryWarning(f); w != "" {
		logger.Warn("the configuration allows more memory than the system", "warning", w)
	}
}

// newLogger returns the log of the program.
func newLogger(w io.Writer, l telemetry.Settings) (*slog.Logger, error) {
	var level slog.Level
	if l.Level != "" {
		if err := level.UnmarshalText([]byte(l.Level)); err != nil {
			return nil, fmt.Errorf("the log level is %q; give debug, info, warn or error", l.Level)
		}
	}
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
}
