package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
	"github.com/sluicehq/sluice/server/internal/insight/replay"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newReplay() *cobra.Command {
	var q replayed
	cmd := &cobra.Command{
		Use:   "replay LOG...",
		Short: "Show whom a policy would have limited, from access logs",
		Long: "Read access logs, and decide about their requests as a server with the configuration\n" +
			"would have decided: the same code decides, with the times of the log. Show which\n" +
			"requests and clients would have been limited, when, and by which rules.\n\n" +
			"A LOG is a file, compressed or not, or - for the standard input. Several files are\n" +
			"merged by time. A rule that needs what the log lacks is not evaluated, and the output\n" +
			"says how to add it. Ctrl-C shows the report of what was read.",
		Example: "  sluice replay access.log.*.gz -c new.yaml --against old.yaml --html report.html\n" +
			"  sluice replay access.log -c new.yaml --expect 'newly_limited.clients<=5'",
		Args: someLogs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := q.options(cmd, args)
			if err != nil {
				return err
			}
			return q.run(cmd, o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	q.register(flags)
	flags.StringVarP(&q.config, "config", "c", "", "`FILE` of the configuration (default SLUICE_CONFIG)")
	flags.StringVar(&q.against, "against", "", "`FILE` of the configuration before; without one, compare with the limits in the log")
	flags.StringVar(&q.client, "client", "", "`PART` that distinguishes clients in the output, such as header:X-Api-Key (default the address)")
	q.keys.among, q.keys.text = []string{"masked", "hash", "plain"}, "masked"
	flags.Var(&q.keys, "keys", "`HOW` to show clients: masked, hash (as in the server's log) or plain")
	q.clients.among, q.clients.text = []string{"open", "retry"}, "open"
	flags.Var(&q.clients, "clients", "`HOW` clients take refusals: open (as in the log) or retry (they come back)")
	q.logged.among, q.logged.text = []string{"demand", "collapse", "drop"}, "demand"
	flags.Var(&q.logged, "logged-429", "what `REFUSALS` in the log are: demand, collapse (repetitions are left out) or drop")
	flags.BoolVar(&q.check, "check", false, "compare the log's verdicts with the replay's; exit 1 if they differ")
	flags.StringArrayVar(&q.expect, "expect", nil, "`BOUND` such as newly_limited.clients<=5; exit 1 if it does not hold; repeatable")
	return cmd
}

// replayed are the flags of replay.
type replayed struct {
	fromLogs
	config, against string
	clients, logged choice
	client          string
	keys            choice
	check           bool
	expect          []string
}

// fromLogs are the flags of commands that read logs.
type fromLogs struct {
	format       string
	since, until moment
	reorder      time.Duration
	set, assume  []string
	proxies      []string
	strict       bool
	json, html   string
}

// register adds the flags.
func (q *fromLogs) register(flags *pflag.FlagSet) {
	flags.StringVar(&q.format, "format", "auto", "`FORMAT` of the logs: auto, combined, nginx:'LOG_FORMAT', apache:'LOG_FORMAT', sluice, and others; see the page on replays")
	flags.Var(&q.since, "since", "leave out requests before this `TIME`, such as 2026-11-27 or 2026-11-27T10:00:00Z")
	flags.Var(&q.until, "until", "leave out requests from this `TIME` on")
	q.reorder = 2 * time.Minute
	flags.Var((*duration)(&q.reorder), "reorder", "`TIME` by which lines may be out of order")
	flags.StringArrayVar(&q.set, "set", nil, "`PART=field:NAME` that has a part of requests, such as header:X-Api-Key=field:api_key; repeatable")
	flags.StringArrayVar(&q.assume, "assume", nil, "`PART=VALUE` that all requests have, such as header:X-Plan=free; repeatable")
	flags.StringSliceVar(&q.proxies, "trusted-proxies", nil, "`NETWORKS` of proxies in front of the log's server (default trusted_proxies of the configuration)")
	flags.BoolVar(&q.strict, "strict", false, "end at the first line that is not of the format")
	flags.StringVar(&q.json, "json", "", "write the report to `FILE` as JSON, - for the standard output in place of the text")
	flags.StringVar(&q.html, "html", "", "write the report to `FILE` as a page")
}

// someLogs wants a log or more.
func someLogs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs a log: sluice %s; give - for the standard input", cmd.Name(), cmd.Use)
	}
	return nil
}

// moment is a flag: a day, or a time.
type moment struct{ time.Time }

func (m *moment) String() string { return "" }
func (m *moment) Type() string   { return "time" }

// Set reads a time. Without a zone it is in UTC.
func (m *moment) Set(text string) error {
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			m.Time = t
			return nil
		}
	}
	return errors.New("it is not a time; write it as in 2026-11-27 or 2026-11-27T10:00:00Z")
}

// named reads a part of requests, such as header:X-Api-Key. Only a log has headers of responses.
func named(flag, text string) (logs.Name, error) {
	from, name, _ := strings.Cut(text, ":")
	if !slices.Contains([]string{"header", "cookie", "query", "claim", "attribute", "response"}, from) || name == "" || from == "response" && flag != "set" {
		return logs.Name{}, fmt.Errorf("--%s names the part %q; write one as in header:X-Api-Key, cookie:NAME, query:NAME, claim:NAME or attribute:NAME", flag, text)
	}
	return replay.NameOf(from, name), nil
}

// logs returns what to read. Most memory is lines that wait for their order, and keys; little is garbage. So the
// collector may run often, and the command needs less memory.
func (q *fromLogs) logs(cmd *cobra.Command, files []string, read ...string) (o logs.Options, assumed []replay.Assumption, err error) {
	debug.SetGCPercent(50)
	switch {
	case q.reorder < time.Second:
		return o, nil, fmt.Errorf("--reorder is %v; give a second or more, such as 2m", q.reorder)
	case !q.since.IsZero() && !q.until.IsZero() && !q.since.Before(q.until.Time):
		return o, nil, errors.New("--until is not later than --since, so no request is left")
	}
	if err := q.apart(append(read, files...)); err != nil {
		return o, nil, err
	}
	o = logs.Options{
		Files: files, Stdin: cmd.InOrStdin(), Format: q.format, Since: q.since.Time, Until: q.until.Time, Reorder: q.reorder, Strict: q.strict,
	}
	given := map[logs.Name]bool{}
	for _, text := range q.set {
		part, field, ok := strings.Cut(text, "=field:")
		if !ok || field == "" {
			return o, nil, fmt.Errorf("--set is %q; write it as in header:X-Api-Key=field:api_key", text)
		}
		n, err := named("set", part)
		if err != nil {
			return o, nil, err
		}
		if given[n] {
			return o, nil, fmt.Errorf("%s is given twice; leave one --set out", part)
		}
		given[n] = true
		o.Set = append(o.Set, logs.Setting{Name: n, Field: field})
	}
	for _, text := range q.assume {
		part, value, ok := strings.Cut(text, "=")
		if !ok {
			return o, nil, fmt.Errorf("--assume is %q; write it as in header:X-Plan=free", text)
		}
		n, err := named("assume", part)
		if err != nil {
			return o, nil, err
		}
		if given[n] {
			return o, nil, fmt.Errorf("%s is given twice; leave one --assume out", part)
		}
		given[n] = true
		assumed = append(assumed, replay.Assumption{Name: n, Value: value})
	}
	return o, assumed, nil
}

// apart returns an error if a report would be written over what is read, over the other report, or into no folder.
func (q *fromLogs) apart(files []string) error {
	if q.json != "" && q.json == q.html {
		return fmt.Errorf("--json and --html both are %s; write one of them to another file", q.json)
	}
	for _, name := range [...]string{q.json, q.html} {
		if name == "" || name == "-" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(name)); err != nil {
			return err
		}
		out, err := os.Stat(name)
		if err != nil {
			continue
		}
		for _, file := range files {
			if in, err := os.Stat(file); err == nil && os.SameFile(in, out) {
				return fmt.Errorf("the report would be written over %s; give --json and --html names of other files", file)
			}
		}
	}
	return nil
}

// policy returns the policy of a configuration.
func (q *fromLogs) policy(name string) (*replay.Policy, *config.File, error) {
	s := settings{config: name}
	f, _, err := s.load()
	if err != nil {
		return nil, nil, err
	}
	o, err := f.PolicyOptions()
	if err != nil {
		return nil, nil, err
	}
	p := &replay.Policy{Name: name, Options: o, IPv6Prefix: f.IPv6Prefix, TrustMarks: f.TrustMarks, MethodOverride: f.Upstream.MethodOverride}
	p.Trusted, p.TrustUnix = f.Trusted()
	if len(q.proxies) > 0 {
		p.TrustUnix = false
		if p.Trusted, err = q.networks(); err != nil {
			return nil, nil, err
		}
	}
	return p, f, nil
}

// networks returns the proxies of the flag.
func (q *fromLogs) networks() ([]netip.Prefix, error) {
	networks, err := httplimit.ParseProxies(q.proxies...)
	if err != nil {
		return nil, fmt.Errorf("--trusted-proxies: %w", err)
	}
	return networks, nil
}

// options returns the options of a replay.
func (q *replayed) options(cmd *cobra.Command, files []string) (o replay.Options, err error) {
	if q.config = cmp.Or(q.config, os.Getenv("SLUICE_CONFIG")); q.config == "" {
		return o, errors.New("replay needs a configuration: sluice replay LOG -c FILE")
	}
	o = replay.Options{Retry: q.clients.text == "retry", Logged: replay.Logged(q.logged.text), Check: q.check}
	var f *config.File
	if o.Policy, f, err = q.policy(q.config); err != nil {
		return o, err
	}
	if q.against != "" {
		if o.Against, _, err = q.policy(q.against); err != nil {
			return o, err
		}
	}
	if o.Logs, o.Assumed, err = q.logs(cmd, files, q.config, q.against); err != nil {
		return o, err
	}
	if q.client != "" && q.client != "client_ip" {
		if o.Client, err = named("client", q.client); err != nil {
			return o, err
		}
	}
	if o.Names, err = q.names(f); err != nil {
		return o, err
	}
	o.Progress = progress(cmd.ErrOrStderr())
	return o, nil
}

// names returns how clients are shown.
func (q *replayed) names(f *config.File) (func(string) string, error) {
	if q.keys.text == "plain" {
		return func(client string) string { return client }, nil
	}
	if q.keys.text == "hash" && f.Log.KeySecretFile == "" && f.Log.KeySecretEnv == "" {
		return nil, fmt.Errorf("--keys hash needs the secret of the server's log, which %s lacks; give log: {key_secret_file: FILE}, or --keys masked", q.config)
	}
	prints, err := f.Log.Fingerprinter()
	if err != nil {
		return nil, err
	}
	hash := func(client string) string { return prints.Fingerprint(sluice.NewKey(client)) }
	if q.keys.text == "hash" {
		return hash, nil
	}
	return func(client string) string { return masked(client) + "~" + hash(client)[:4] }, nil
}

// masked returns the beginning of a client's name.
func masked(client string) string {
	if addr, err := netip.ParseAddr(client); err == nil && addr.Is4() {
		return client[:strings.LastIndexByte(client, '.')] + ".*"
	}
	if p, err := netip.ParsePrefix(client); err == nil {
		if p, err = p.Addr().Prefix(min(p.Bits(), 48)); err == nil {
			return p.String()
		}
	}
	runes := []rune(client)
	return string(runes[:min(3, len(runes)/2)]) + "*"
}

// progress returns a function that shows how much was read; nil if nobody looks.
func progress(w io.Writer) func(read, total, lines int64) {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	began, shown := time.Now(), time.Now()
	return func(read, total, lines int64) {
		now := time.Now()
		if now.Sub(shown) < 200*time.Millisecond {
			return
		}
		shown = now
		took := now.Sub(began)
		line := fmt.Sprintf("%d lines, %.0f/s", lines, float64(lines)/took.Seconds())
		if total > 0 && read > 0 {
			left := time.Duration(float64(took) * float64(total-read) / float64(read))
			line = fmt.Sprintf("%3d%%, %s, %s left", 100*read/total, line, left.Round(time.Second))
		}
		fmt.Fprintf(f, "\r%-60s\r", line)
	}
}

// run replays, and writes the report.
func (q *replayed) run(cmd *cobra.Command, o replay.Options) error {
	var bounds []replay.Expectation
	for _, text := range q.expect {
		e, err := replay.ParseExpectation(text)
		if err != nil {
			return err
		}
		bounds = append(bounds, e)
	}
	report, err := replay.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if err := q.write(cmd.Context(), cmd, report); err != nil {
		return err
	}
	if cmd.Context().Err() != nil && (len(bounds) > 0 || q.check) {
		return errors.New("interrupted, so --expect and --check say nothing about the log")
	}
	errs := []error{replay.CheckAll(report, bounds)}
	if c := report.Check; c != nil {
		switch {
		case c.Compared == 0:
			errs = append(errs, errors.New("--check found no verdict to compare; give an access log of sluice, or of nginx with $limit_req_status"))
		case c.Agreed < c.Compared:
			errs = append(errs, fmt.Errorf("%d of %d logged verdicts differ", c.Compared-c.Agreed, c.Compared))
		}
	}
	return errors.Join(errs...)
}

// document is a report in its forms.
type document interface {
	Text(w io.Writer) error
	WriteHTML(w io.Writer) error
}

// write writes a report in the forms that the flags name.
func (q *fromLogs) write(ctx context.Context, cmd *cobra.Command, d document) error {
	out := cmd.OutOrStdout()
	if ctx.Err() != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "interrupted: this is the part of the log that was read")
	}
	asJSON := func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	var errs []error
	if q.json != "-" {
		errs = append(errs, d.Text(out))
	}
	for _, f := range [...]struct {
		name  string
		write func(io.Writer) error
	}{{q.json, asJSON}, {q.html, d.WriteHTML}} {
		switch f.name {
		case "":
		case "-":
			errs = append(errs, f.write(out))
		default:
			errs = append(errs, writeFile(f.name, f.write))
		}
	}
	return errors.Join(errs...)
}

// writeFile writes a file that only its owner can read, because it may have names of clients.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
