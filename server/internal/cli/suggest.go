package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/insight/replay"
	"github.com/sluicehq/sluice/server/internal/insight/suggest"
	"github.com/spf13/cobra"
)

func newSuggest() *cobra.Command {
	var q suggested
	cmd := &cobra.Command{
		Use:   "suggest LOG...",
		Short: "Suggest limits that fit the traffic of access logs",
		Long: "Read access logs, and compute what each client needed: for each rate, the burst with\n" +
			"which a token bucket would never have denied it. Suggest limits that a share of the\n" +
			"clients never reaches. Limits are fitted to the first 70 % of the log and measured on\n" +
			"the rest, by the code that decides in a server. The log is read three times; the\n" +
			"standard input (-) is kept in a temporary file meanwhile.\n\n" +
			"With -c, each rule of a configuration gets a suggestion, beside what its limits do.",
		Example: "  sluice suggest access.log --key client_ip --per 1m\n" +
			"  sluice suggest access.log.*.gz -c sluice.yaml --share 99.9%",
		Args: someLogs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := q.options(cmd, args)
			if err != nil {
				return err
			}
			report, err := suggest.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := q.write(cmd.Context(), cmd, report); err != nil {
				return err
			}
			for _, r := range report.Rules {
				if r.Bucket != nil {
					return nil
				}
			}
			return errors.New("the log is too thin for a suggestion")
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	q.register(flags)
	flags.StringVarP(&q.config, "config", "c", "", "`FILE` of the configuration whose rules get suggestions")
	flags.StringArrayVar(&q.key, "key", nil, "`PART` of the key that clients are limited by, in place of a file; repeatable (default client_ip)")
	q.per = time.Minute
	flags.Var((*duration)(&q.per), "per", "`PERIOD` of the rates, such as 1s, 1m or 1h")
	q.share = "99%"
	flags.StringVar(&q.share, "share", q.share, "`SHARE` of the clients that no suggested limit denies")
	flags.Float64Var(&q.headroom, "headroom", 1.5, "`FACTOR` by which more is allowed than they needed")
	return cmd
}

// suggested are the flags of suggest.
type suggested struct {
	fromLogs
	config, share string
	key           []string
	per           time.Duration
	headroom      float64
}

// options returns the options of a suggestion.
func (q *suggested) options(cmd *cobra.Command, files []string) (o suggest.Options, err error) {
	ratio, problem, remedy := reader.ParseRatio(q.share)
	if problem != "" {
		return o, fmt.Errorf("--share is %q, and it %s; %s", q.share, problem, remedy)
	}
	o = suggest.Options{Per: q.per, Share: float64(ratio), Headroom: q.headroom, Named: q.config != ""}
	switch {
	case q.config != "" && len(q.key) > 0:
		return o, errors.New("--key and -c are given; the rules of the file have keys, so leave --key out")
	case q.config != "":
		o.Policy, _, err = q.policy(q.config)
	default:
		o.Policy, err = q.one()
	}
	if err != nil {
		return o, err
	}
	if o.Logs, o.Assumed, err = q.logs(cmd, files, q.config); err != nil {
		return o, err
	}
	o.Progress = progress(cmd.ErrOrStderr())
	if err := o.Check(); err != nil {
		return o, err
	}
	return o, nil
}

// one returns the policy of one rule, by the parts of the flag.
func (q *suggested) one() (*replay.Policy, error) {
	if len(q.key) == 0 {
		q.key = []string{"client_ip"}
	}
	limit, err := sluice.NewLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1)}) // which rule needs a limit, and none decides here
	if err != nil {
		return nil, err
	}
	rule := policy.Rule{Name: "suggested", Limits: []*sluice.Limit{limit}}
	for _, text := range q.key {
		part, err := policy.ParsePart(text)
		if err != nil {
			return nil, fmt.Errorf("--key: %w", err)
		}
		rule.Key = append(rule.Key, part.IfMissing(policy.MissingSkip))
	}
	o, err := config.Default().PolicyOptions()
	if err != nil {
		return nil, err
	}
	o.Rules = []policy.Rule{rule}
	p := &replay.Policy{Name: "--key", Options: o, IPv6Prefix: o.IPv6Prefix}
	if p.Trusted, err = q.networks(); err != nil {
		return nil, err
	}
	return p, nil
}
