package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/wire"
	"github.com/spf13/cobra"
)

const (
	// aboutKeys describes the arguments of the commands about one key.
	aboutKeys = "RULE is the name of a rule, and KEY the values of the rule's key, in their order. A rule with\n" +
		"one budget for everybody has no KEY.\n\n"

	// about describes the flags of the commands that call a running server.
	about = "The server is SLUICE_SERVER, or else the admin listener at its default address. Servers that\n" +
		"share a store give the same answers, so call any of them. Each flag about the server can be set\n" +
		"in the environment: --server is SLUICE_SERVER. The admin token comes from SLUICE_ADMIN_TOKEN or\n" +
		"from a file."
)

// keyedRule is the key of a rule as a command names it.
type keyedRule struct {
	Rule string   `json:"rule"`
	Key  []string `json:"key"`
}

// needsRule requires the name of a rule, and values that a call can have.
func needsRule(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs the name of a rule: %s", cmd.Name(), usageOf(cmd))
	}
	for _, text := range args {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q is not UTF-8, so no call can have it; write it as UTF-8", text)
		}
	}
	return nil
}

// mayHaveRule allows the name of one rule.
func mayHaveRule(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%s takes one rule, and %d arguments are given: %s", cmd.Name(), len(args), usageOf(cmd))
	}
	return nil
}

// usageOf returns a command with its arguments.
func usageOf(cmd *cobra.Command) string { return cmd.Parent().CommandPath() + " " + cmd.Use }

// plainText is text that shells and readers take literally.
var plainText = regexp.MustCompile(`^[A-Za-z0-9._:/@+=,%-]+$`)

// keyText writes the values of a key as arguments.
func keyText(values []string) string {
	if len(values) == 0 {
		return "everybody"
	}
	words := make([]string, len(values))
	for i, v := range values {
		switch {
		case plainText.MatchString(v):
			words[i] = v
		case printable(v) == v && !strings.ContainsAny(v, `'\`):
			words[i] = "'" + v + "'"
		default:
			words[i] = strconv.Quote(v)
		}
	}
	return strings.Join(words, " ")
}

func newPeek() *cobra.Command {
	var c client
	var asJSON bool
	var plan string
	cmd := &cobra.Command{
		Use:   "peek RULE [KEY...]",
		Short: "Show what is left for a key of a rule",
		Long: "Show what is left for a key of a rule now, in a running server: for each limit of the rule the\n" +
			"units that are left, when the next request would pass, when the limit is full again, and\n" +
			"whether a ban is in force. Nothing is counted. FULL IN includes the next request, if it passes.\n\n" + aboutKeys + about,
		Example: "  sluice peek login 192.0.2.1\n  sluice peek per-user 192.0.2.1 ann",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			var answer json.RawMessage
			q := struct {
				keyedRule
				Plan string `json:"plan,omitempty"`
			}{keyedRule{args[0], args[1:]}, plan}
			if err := c.call(cmd.Context(), http.MethodPost, "/v1/peek", q, &answer); err != nil {
				return err
			}
			if asJSON {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", answer)
				return err
			}
			var p peeked
			if err := json.Unmarshal(answer, &p); err != nil {
				return c.strange()
			}
			return p.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the server's answer, in JSON")
	cmd.Flags().StringVar(&plan, "plan", "", "`NAME` of the plan that requests of the key name")
	c.register(cmd)
	return cmd
}

// peeked is what a server answers to a peek.
type peeked struct {
	Allowed     bool
	Reason      string
	UnknownPlan bool `json:"unknown_plan"`
	Limits      []state
	Ahead       *wire.AheadUsage
}

// state is the state of a limit for a key. Remaining is nil if it is not known.
type state struct {
	wire.LimitUsage
	Overflow bool
}

// word describes whether the next request would pass.
func (s *state) word() string {
	word := "allowed"
	if !s.Allowed {
		word = "denied: " + s.Reason
	}
	if s.Ahead {
		word += " by units ahead"
	}
	if s.Degraded {
		word += ", decided by a fallback"
	}
	if s.Overflow {
		word += ", in a shared budget"
	}
	return word
}

// retryAfter describes when the next request would pass; write writes milliseconds.
func retryAfter(allowed bool, w *wire.Waits, write func(int64) string) string {
	switch {
	case allowed:
		return "now"
	case w.RetryAfterMS == nil:
		return "-"
	default:
		return write(*w.RetryAfterMS)
	}
}

// fullIn describes when the limit is full again. The server counts the next request in, if it passes.
func (s *state) fullIn() string {
	switch {
	case s.Remaining == nil || s.ResetAfterMS == nil:
		return "?"
	case *s.Remaining == s.Capacity:
		return "now"
	default:
		return millis(*s.ResetAfterMS)
	}
}

// unitsOf returns how many units are left of a limit, and of how many.
func unitsOf(l *wire.LimitUsage) (left, of string) {
	left, of = "?", strconv.FormatInt(l.Capacity, 10)
	switch {
	case l.Listed != "":
		return "-", "-" // no number counts
	case l.Remaining != nil:
		left = strconv.FormatInt(*l.Remaining, 10)
	}
	return left, of
}

// millis writes milliseconds, in seconds if there are some.
func millis(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d > time.Second {
		d = d.Round(time.Second)
	}
	return d.String()
}

func (p *peeked) print(out io.Writer) error {
	if len(p.Limits) == 0 {
		verdict := "passes: no limit applies"
		if !p.Allowed {
			verdict = "denied: " + printable(p.Reason)
			if p.Reason == sluice.ReasonListed.String() {
				verdict += ", by a deny list or by an override; see sluice override get"
			}
		}
		_, err := fmt.Fprintln(out, verdict)
		return err
	}
	t := newRows(out, "LEFT", "OF", "PASSES IN", "FULL IN", "LIMIT", "STATE")
	for i := range p.Limits {
		l := &p.Limits[i]
		left, of := unitsOf(&l.LimitUsage)
		full, word := l.fullIn(), l.word()
		switch {
		case l.Listed != "" && l.From != "":
			full, word = "-", "unlimited"
		case l.Listed != "":
			full, word = "-", "on the "+l.Listed+" list"
		}
		if l.From == "call" || l.From == "file" {
			word += ", under an override"
		}
		if l.Plan != "" {
			word += ", under plan " + l.Plan
		}
		if l.Role != "enforced" {
			word += " (" + l.Role + ")"
		}
		t.row(left, of, retryAfter(l.Allowed, &l.Waits, millis), full, l.Limit, word)
	}
	if x := p.Ahead; x != nil {
		t.row(x.Remaining, x.Units, "now", "never", "units ahead", "until "+x.Until.UTC().Format(time.RFC3339))
	}
	if err := t.end(); err != nil || !p.UnknownPlan {
		return err
	}
	_, err := fmt.Fprintln(out, "the policy does not have this plan, so these are the numbers of the rule")
	return err
}

func newReset() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "reset RULE [KEY...]",
		Short: "Forget what a key of a rule has used, and its bans",
		Long: "Forget what a key of a rule has used, and its bans, in a running server. All limits of the\n" +
			"rule are full again for the key. Units in flight of a concurrency limit no longer count.\n\n" + aboutKeys + about,
		Example: "  sluice reset login 192.0.2.1",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := keyedRule{args[0], args[1:]}
			var answer struct{ Reset bool }
			if err := c.call(cmd.Context(), http.MethodPost, "/v1/reset", q, &answer); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "reset for %s: %s\n", q.Rule, keyText(q.Key))
			return err
		},
	}
	c.register(cmd)
	return cmd
}

func newGrant() *cobra.Command {
	var c client
	var unset bool
	cmd := &cobra.Command{
		Use:   "grant RULE [KEY...] UNITS",
		Short: "Give units to a key of a rule, back or ahead",
		Long: "Give units back to a key of a rule, in a running server, and show what is left then. All limits\n" +
			"of the rule get the units, as if the newest requests of the key had cost less: at most what the\n" +
			"key has used. A leaky bucket and a concurrency limit cannot take units back.\n\n" +
			"With --ahead, the key gets units beyond its limits. They count when a limit denies, until they are\n" +
			"used or their time is over. The setting ahead of the rule is the bound. With --unset and no UNITS,\n" +
			"the key loses what it has ahead.\n\n" + aboutKeys + about,
		Example: "  sluice grant tenants acme 500 --note 'ticket 12: our mistake'\n" +
			"  sluice grant tenants acme 500 --ahead --for 12h --note 'ticket 13: until tomorrow'\n" +
			"  sluice grant tenants acme --unset",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 && !unset {
				return fmt.Errorf("grant needs the name of a rule and the units: %s", usageOf(cmd))
			}
			q := wanted{}
			if err := cmp.Or(needsRule(cmd, args), q.setFlags(cmd)); err != nil {
				return err
			}
			if unset {
				for _, name := range [...]string{"ahead", "for", "until", "note"} {
					if cmd.Flags().Changed(name) {
						return fmt.Errorf("--unset takes back all that the key has ahead; leave --%s out", name)
					}
				}
				return c.granted(cmd, http.MethodDelete, q, args, "has no units ahead")
			}
			last := len(args) - 1
			units, err := strconv.ParseInt(args[last], 10, 64)
			if err != nil {
				return fmt.Errorf("grant: UNITS is %q; give a whole number after the key, such as 100", args[last])
			}
			what := "gets up to %d units back"
			if q["ahead"] == true {
				what = "gets %d units ahead"
			}
			q["units"] = units
			return c.granted(cmd, http.MethodPost, q, args[:last], fmt.Sprintf(what, units))
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if negative.MatchString(err.Error()) {
			return errors.New("grant: UNITS is negative; give 1 or more. To take units, call /v1/debit; to take back what a key has ahead, give --unset")
		}
		return flagError(cmd, err)
	})
	cmd.Flags().Bool("ahead", false, "give units ahead, not back")
	cmd.Flags().Var(new(duration), "for", "`TIME` until units ahead end, such as 12h (default: what the rule says)")
	cmd.Flags().String("until", "", "`TIME` at which units ahead end, such as 2030-01-31T18:00:00Z")
	cmd.Flags().BoolVar(&unset, "unset", false, "take back what the key has ahead")
	cmd.Flags().String("note", "", "`TEXT` for the audit log, such as why")
	c.register(cmd)
	return cmd
}

// negative is the error of a negative number, which has the form of a flag.
var negative = regexp.MustCompile(`^unknown shorthand flag: '\d'`)

// granted changes the units of a key, and prints what was done and what is left.
func (c *client) granted(cmd *cobra.Command, method string, q wanted, of []string, what string) error {
	q["rule"], q["key"] = of[0], of[1:]
	var p peeked
	if err := c.call(cmd.Context(), method, "/v1/grant", q, &p); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s for %s\n", keyText(of[1:]), what, of[0]); err != nil {
		return err
	}
	return p.print(cmd.OutOrStdout())
}

func newKeys() *cobra.Command {
	var c client
	var most int
	var limited, asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "keys [RULE]",
		Short: "List the keys that were denied lately, and what is left for them",
		Long: "List the keys that the servers of a store denied lately: how often, why, and what is left for each\n" +
			"of them now. Without RULE, the keys of all rules are listed. The latest denial comes first.\n\n" +
			"For each rule, a server counts the 512 keys that it denies most, in this half hour and the one\n" +
			"before. With more keys, a number of denials can be too high, by the number after ±. If servers\n" +
			"share a store, each gives its 200 keys with the most denials. Keys that were never denied are not\n" +
			"listed; sluice peek shows any key. (shadow) and (candidate) mark keys that only a rule in shadow,\n" +
			"or the candidate of a rule, would have denied. A key whose values are not known here, or may not be\n" +
			"shown, is listed as a digest in angle brackets, as in the log. The audit log notes who saw values.\n\n" + about,
		Example: "  sluice keys login\n  sluice keys --limited",
		Args:    mayHaveRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"most": {strconv.Itoa(most)}}
			if len(args) > 0 {
				query.Set("rule", args[0])
			}
			if limited {
				query.Set("limited", "true")
			}
			l := keyList{json: asJSON, limited: limited}
			for {
				l.Keys = wire.Keys{}
				if err := c.call(cmd.Context(), http.MethodGet, "/v1/keys?"+query.Encode(), nil, &l.Keys); err != nil {
					return err
				}
				if watch && !asJSON {
					if _, err := io.WriteString(cmd.OutOrStdout(), clearTerminal(cmd.OutOrStdout())); err != nil {
						return err
					}
				}
				if err := l.print(cmd.OutOrStdout()); err != nil {
					return err
				}
				if l.More {
					if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "there are more keys; --most lists up to 1000, and RULE the keys of one rule\n"); err != nil {
						return err
					}
				}
				if l.Degraded {
					if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "the store does not answer: on_store_error of each rule decides, also about keys that are not listed\n"); err != nil {
						return err
					}
				}
				if len(l.Missing) > 0 {
					if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "the list lacks the keys of %s, which gave no answer\n", printable(strings.Join(l.Missing, ", "))); err != nil {
						return err
					}
				}
				if !watch || !pause(cmd.Context(), topEvery) {
					return nil
				}
			}
		},
	}
	cmd.Flags().IntVar(&most, "most", 100, "`NUMBER` of keys to list at most, up to 1000")
	cmd.Flags().BoolVar(&limited, "limited", false, "list only keys whose next request would be denied now")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each key")
	cmd.Flags().BoolVar(&watch, "watch", false, "list the keys again each second, until Ctrl-C")
	c.register(cmd)
	return cmd
}

// keyList is the list that the command prints.
type keyList struct {
	json, limited bool
	wire.Keys
}

func (l *keyList) print(out io.Writer) error {
	if l.json {
		return printLines(out, l.Keys.Keys)
	}
	if len(l.Keys.Keys) == 0 {
		which := "was denied lately"
		if l.limited {
			which = "is limited now"
		}
		_, err := fmt.Fprintf(out, "no key %s\n", which)
		return err
	}
	t := newRows(out, "LEFT", "OF", "PASSES IN", "DENIED", "LAST", "WHY", "RULE", "KEY")
	for i := range l.Keys.Keys {
		k := &l.Keys.Keys[i]
		left, of, passes := "-", "-", "-"
		if k.Now != nil {
			left, of = unitsOf(k.Now)
			passes = retryAfter(k.Now.Allowed, &k.Now.Waits, millis)
		}
		why := reason(k)
		if k.Limit != k.Rule {
			why += " by " + k.Limit
		}
		switch {
		case k.Now != nil && k.Now.Listed == "deny":
			why += "; now refused by a list or an override"
		case k.Now != nil && k.Now.From == "call", k.Now != nil && k.Now.From == "file":
			why += " under an override"
		case k.Plan != "":
			why += " under plan " + k.Plan
		}
		if k.Now != nil && k.Now.Ahead {
			why += "; units ahead pay"
		}
		if k.Candidate != nil {
			why += "; " + tried(k.Candidate)
		}
		t.row(left, of, passes, denials(k), millis(k.LastMS)+" ago", why, k.Rule, keyOrDigest(k.Key, k.Digest))
	}
	return t.end()
}

// reason describes why a key was denied, and what followed.
func reason(k *wire.DeniedKey) string {
	if k.Role != "enforced" {
		return printable(k.Reason + " (" + k.Role + ")")
	}
	return printable(k.Reason)
}

// tried describes what the candidate of its rule would do to a key.
func tried(t *wire.Trial) string {
	switch {
	case t.WouldDeny == 0:
		return "the candidate frees it"
	case t.WouldDeny < t.Compared:
		return fmt.Sprintf("the candidate denies %d, not %d", t.WouldDeny, t.Compared)
	default:
		return "limited by the candidate too"
	}
}

// denials returns how often a key was denied, and by how much the number may be too high.
func denials(k *wire.DeniedKey) string {
	if k.Error == 0 {
		return strconv.FormatUint(k.Denials, 10)
	}
	return fmt.Sprintf("%d±%d", k.Denials, k.Error)
}
