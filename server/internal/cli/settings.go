package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/app"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/edge/proxy"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settings are the flags of serve. A zero value means that the flag is not set.
type settings struct {
	config         string // the file; empty for the quick start
	envoy          string // the folder of the configuration of Envoy's rate limit service
	warnings       []string
	listen         map[string]*address // by the name of the listener
	upstream       proxied
	adminTokenFile string
	apiTokenFile   string
	readTokenFile  string
	logLevel       choice
	logFormat      choice
	drainTimeout   time.Duration
	lastGood       string // the file of the last good configuration; empty for none
}

func (s *settings) register(flags *pflag.FlagSet) {
	s.logLevel.among = []string{"debug", "info", "warn", "error"}
	s.logFormat.among = []string{"text", "json"}
	s.listen = map[string]*address{}
	for _, l := range config.Default().Listen.All() {
		s.listen[l.Name] = new(address)
		flags.Var(s.listen[l.Name], "listen-"+l.Name, l.Usage+", `HOST:PORT`, unix:PATH or off (default "+cmp.Or(l.Address, "off")+")")
	}
	flags.StringVar(&s.envoy, "envoy-config", "", "`DIR` of a configuration of Envoy's rate limit service, instead of FILE")
	flags.Var(&s.upstream, "upstream", "`URL` of the service behind the proxy, or echo for the built-in one (default echo)")
	flags.StringVar(&s.adminTokenFile, "admin-token-file", "", "`FILE` that holds the admin token")
	flags.StringVar(&s.apiTokenFile, "api-token-file", "", "`FILE` that holds the token of the decision API")
	flags.StringVar(&s.readTokenFile, "read-token-file", "", "`FILE` that holds the token that only reads")
	flags.Var(&s.logLevel, "log-level", "least `LEVEL` to log: debug, info, warn or error (default info)")
	flags.Var(&s.logFormat, "log-format", "`FORMAT` of the log: text or json (default text)")
	flags.StringVar(&s.lastGood, "last-good", "", "`FILE` for a copy of the last configuration that ran, to start with if the current one is bad")
	flags.Var((*duration)(&s.drainTimeout), "drain-timeout", "`TIME` for requests under way to end (default 30s)")
}

// variable returns the environment variable of a flag.
func variable(f *pflag.Flag) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// fromEnvironment sets flags that were not given from the environment.
func fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := variable(f)
		text, ok := os.LookupEnv(name)
		if !ok || text == "" || f.Changed || f.Name == "help" || f.Name == "check" {
			return
		}
		if err := flags.Set(f.Name, text); err != nil {
			// The error of pflag names the flag, which was not given.
			if cause := errors.Unwrap(err); cause != nil {
				err = cause
			}
			errs = append(errs, fmt.Errorf("%s=%q: %w", name, text, err))
		}
	})
	return errors.Join(errs...)
}

// oneFile accepts the name of one configuration file, or none.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes one file; write sluice %s", cmd.Name(), cmd.Use)
	}
	return nil
}

// setFile takes the file from the arguments, or from SLUICE_CONFIG.
func (s *settings) setFile(args []string) {
	if len(args) > 0 {
		s.config = args[0]
		return
	}
	s.config = os.Getenv("SLUICE_CONFIG")
}

// load reads the file, or the quick start. The flags override its settings.
func (s *settings) load() (f *config.File, quickStart bool, err error) {
	folder := s.envoyFolder()
	switch {
	case folder != "":
		f, err = s.loadEnvoy(folder)
	case s.config == "":
		_, f, err = app.QuickStart()
	default:
		f, err = config.Load(s.config)
	}
	if err != nil {
		return nil, false, err
	}
	if err := errors.Join(s.override(f), s.checkWrites(f)); err != nil {
		return nil, false, err
	}
	return f, s.config == "" && folder == "", nil
}

// options returns the options of a server with a configuration.
func (s *settings) options(f *config.File) app.Options {
	overridden := map[string]string{}
	for name, a := range s.listen {
		if *a != "" {
			overridden["listen."+name+".address"] = "--listen-" + name
		}
	}
	return app.Options{File: f, Version: Version(), ReadTokens: s.tokens, TokenFiles: s.tokenFiles(f), Overridden: overridden}
}

// checkWrites returns an error if the server would write a file that it also uses for something else.
func (s *settings) checkWrites(f *config.File) error {
	others := []config.NamedFile{
		{Setting: "the admin token", Path: s.adminTokenFile},
		{Setting: "the API token", Path: s.apiTokenFile},
		{Setting: "the read token", Path: s.readTokenFile},
		{Setting: "last-good", Path: s.lastGood, Written: true},
	}
	if s.lastGood != "" {
		others = append(others, config.NamedFile{Setting: "the next copy of last-good", Path: s.lastGood + newCopy, Written: true})
	}
	return f.CheckWrites(others...)
}

// override replaces the settings of a file that flags give.
func (s *settings) override(f *config.File) error {
	for _, l := range f.Listen.All() {
		if a := s.listen[l.Name]; a != nil {
			a.over(l.Listener)
		}
	}
	if u := s.upstream.upstream; u != "" {
		f.Upstream.URL = string(u)
	}
	if s.logLevel.text != "" {
		f.Log.Level = s.logLevel.text
	}
	if s.logFormat.text != "" {
		f.Log.Format = s.logFormat.text
	}
	if s.drainTimeout < 0 {
		return fmt.Errorf("drain-timeout is %v; give a positive time such as 30s", s.drainTimeout)
	}
	if s.drainTimeout > 0 {
		f.DrainTimeout = s.drainTimeout
	}
	return nil
}

// duration is a flag: a time as in files, such as 30s or 1d.
type duration time.Duration

// String returns the time; it is empty for none, so that the help shows no default.
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *duration) Type() string { return "duration" }

// Set reads a time.
func (d *duration) Set(text string) error {
	t, ok := reader.ParseDuration(text)
	if !ok {
		return errors.New("it is not a duration; write it as in 10s, 1h30m or 1d")
	}
	*d = duration(t)
	return nil
}

// address is a flag: host:port, unix:PATH, or off.
type address string

func (a *address) String() string { return string(*a) }
func (a *address) Type() string   { return "address" }

// Set checks an address.
func (a *address) Set(text string) error {
	socket, err := accept.ParseSocket(text)
	if err != nil {
		return err
	}
	if text != "off" && socket == "" {
		_, port, err := net.SplitHostPort(text)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n > 65535 {
			return errors.New("it is not an address; write HOST:PORT, such as 127.0.0.1:8080, unix:PATH, or off")
		}
	}
	*a = address(text)
	return nil
}

// over replaces the address of a listener. Its TLS stays as in the file.
func (a address) over(l *accept.Listener) {
	switch a {
	case "":
	case "off":
		l.Address = ""
	default:
		l.Address = string(a)
	}
}

// proxied is a flag: the URL of a service, or echo.
type proxied struct{ upstream }

// Set checks a URL, or the word echo.
func (p *proxied) Set(text string) error {
	if text == proxy.Echo {
		p.upstream = upstream(text)
		return nil
	}
	return p.upstream.Set(text)
}

// upstream is a flag: the URL of a service.
type upstream string

func (u *upstream) String() string { return string(*u) }
func (u *upstream) Type() string   { return "url" }

// Set checks a URL.
func (u *upstream) Set(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return errors.New("it is not the URL of a service; write http://HOST:PORT or https://HOST")
	}
	*u = upstream(text)
	return nil
}

// choice is a flag: one of a few words.
type choice struct {
	text  string
	among []string
}

func (c *choice) String() string { return c.text }
func (c *choice) Type() string   { return "word" }

// Set checks a word.
func (c *choice) Set(text string) error {
	for _, w := range c.among {
		if strings.EqualFold(w, text) {
			c.text = w
			return nil
		}
	}
	return fmt.Errorf("the choices are %s", strings.Join(c.among, ", "))
}
