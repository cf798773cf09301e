package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const overridesPath = "/v1/overrides"

// A call of import sets so many overrides at most, and has so many bytes.
const (
	overrideBatch = 1000
	batchBytes    = 512 << 10
)

// numberColumns are the numbers of an override: flags of set, and columns of a table.
var numberColumns = []struct{ name, what string }{
	{"rate", "`RATE` of the limit, such as 5000/m"},
	{"burst", "`UNITS` of a token bucket"},
	{"debt", "`UNITS` that a token bucket may owe"},
	{"warm_up", "`TIME` in which an idle token bucket reaches its full rate"},
	{"queue", "`UNITS` that may wait in a leaky bucket or a concurrency limit"},
	{"undelayed", "`UNITS` in the queue of a leaky bucket that pass without delay"},
	{"min_interval", "least `TIME` between two requests in a sliding log"},
	{"max", "`UNITS` that may be in flight in a concurrency limit"},
}

// otherColumns are the columns of a table beside key and the numbers.
var otherColumns = []string{"limits", "plan", "unlimited", "deny", "until", "note"}

// columnsOf returns the names of all columns of a table of keys with some parts.
func columnsOf(parts int) []string {
	row := slices.Repeat([]string{"key"}, parts)
	for _, n := range numberColumns {
		row = append(row, n.name)
	}
	return append(row, otherColumns...)
}

func newOverride() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "override",
		Short: "Give keys other numbers while the server runs",
		Long: "Set, show and remove overrides of a running server: other numbers for a key of a rule, in force\n" +
			"on all servers of a store within a second. They come before the overrides of the file.",
	}
	cmd.AddCommand(newOverrideSet(), newOverrideGet(), newOverrideList(), newOverrideUnset(), newOverrideImport(), newOverrideExport())
	return cmd
}

// wanted is an override as a call sets it, by the names of its fields.
type wanted map[string]any

// setFlags sets the fields of the flags that are given.
func (q wanted) setFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		name, text := strings.ReplaceAll(f.Name, "-", "_"), f.Value.String()
		length, isTime := f.Value.(*duration)
		switch {
		case err != nil || !isTime && name != "ahead" && !slices.Contains(columnsOf(0), name):
		case isTime:
			if q["for_ms"] = time.Duration(*length).Milliseconds(); *length < duration(time.Millisecond) {
				err = fmt.Errorf("--for is %v; give a millisecond or more, such as 72h", time.Duration(*length))
			}
		case text == "":
			err = fmt.Errorf("--%s is empty; give a value, or leave it out", f.Name)
		default:
			if err = q.set(name, text); err != nil {
				err = fmt.Errorf("--%s: %w", f.Name, err)
			}
		}
	})
	return err
}

// set sets the field of a column or a flag. The server reports what does not fit.
func (q wanted) set(name, text string) (err error) {
	switch {
	case text == "":
	case name == "limits" && !json.Valid([]byte(text)):
		return errors.New(`the limits are not JSON; give a list such as '[{"rate": "5000/m"}, {}]', with {} for a limit that stays as it is`)
	case name == "limits":
		q[name] = json.RawMessage(text)
	case name == "unlimited" || name == "deny" || name == "ahead":
		if q[name], err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is not true or false; write true, or leave it empty", text)
		}
	case slices.Contains(otherColumns, name):
		q[name] = text
	default:
		limit, _ := q["limit"].(map[string]any)
		if limit == nil {
			limit = map[string]any{}
			q["limit"] = limit
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			limit[name] = n
		} else {
			limit[name] = text
		}
	}
	return nil
}

// inBatch finds where an error of the server names an override of a batch.
var inBatch = regexp.MustCompile(`overrides\[(\d+)\](: )?`)

// changeOverrides changes a batch of overrides, all or none. An error names the line or the rule of its override.
func (c *client) changeOverrides(ctx context.Context, method string, batch any, where func(i int) string) ([]wire.OverrideChanged, error) {
	var answer wire.OverridesChanged
	err := c.call(ctx, method, overridesPath, map[string]any{"overrides": batch}, &answer)
	if err != nil {
		err = errors.New(inBatch.ReplaceAllStringFunc(err.Error(), func(match string) string {
			parts := inBatch.FindStringSubmatch(match)
			i, _ := strconv.Atoi(parts[1]) // digits of a server
			if at := where(i); at != "" {
				return at + parts[2]
			}
			return ""
		}))
	}
	return answer.Overrides, err
}

// changeRules changes the override that a key has at each of some rules, all or none, and prints what was done.
func (c *client) changeRules(cmd *cobra.Command, method, rules string, q wanted, said map[bool]string) error {
	names := strings.Split(rules, ",")
	batch := make([]wanted, len(names))
	for i, name := range names {
		batch[i] = maps.Clone(q)
		batch[i]["rule"] = name
	}
	answers, err := c.changeOverrides(cmd.Context(), method, batch, func(i int) string {
		if len(names) == 1 {
			return "" // the command names it
		}
		return "rule " + names[i]
	})
	if err != nil {
		return err
	}
	for i := range answers {
		a, end := &answers[i], ""
		if !a.Until.IsZero() {
			end = " until " + a.Until.UTC().Format(time.RFC3339)
		}
		if a.Kept == "memory" && method == http.MethodPut {
			end += "; it ends with the server, which has no file of states"
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s for %s%s: %s\n", said[a.Existed], printable(a.Rule), end, keyText(a.Key)); err != nil {
			return err
		}
		if err := warn(cmd, "", a.Warning); err != nil {
			return err
		}
	}
	return nil
}

// warn prints a warning of the server, if there is one, after the line that it is about.
func warn(cmd *cobra.Command, line, warning string) (err error) {
	if warning != "" {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "warning: %sthe override %s\n", line, printable(warning))
	}
	return err
}

// aboutRules describes several rules as an argument.
const aboutRules = "RULE may be several names with commas: the key gets the same at each of these rules, or at none.\n\n"

func newOverrideSet() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "set RULE [KEY...] --rate RATE",
		Short: "Give a key other numbers, for ever or for a time",
		Long: "Give a key of a rule other numbers in a running server, in place of an override that it has. A\n" +
			"number that is not given is the rule's. What the key has used stays used.\n\n" + aboutKeys + aboutRules + about,
		Example: "  sluice override set tenants acme --rate 5000/m --for 72h --note \"sale\"\n" +
			"  sluice override set tenants,uploads acme --plan gold\n" +
			"  sluice override set tenants acme --unlimited --until 2030-01-31T18:00:00Z",
		Args: needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := wanted{"key": args[1:]}
			if err := q.setFlags(cmd); err != nil {
				return err
			}
			return c.changeRules(cmd, http.MethodPut, args[0], q, map[bool]string{false: "set", true: "replaced"})
		},
	}
	f := cmd.Flags()
	for _, n := range numberColumns {
		f.String(strings.ReplaceAll(n.name, "_", "-"), "", n.what)
	}
	f.String("limits", "", "numbers of all limits of a rule with several, as `JSON`")
	f.String("plan", "", "`NAME` of a plan of the file, in place of numbers")
	f.Bool("unlimited", false, "let the key pass without limits")
	f.Bool("deny", false, "refuse the key")
	f.Var(new(duration), "for", "`TIME` until the override ends, such as 72h")
	f.String("until", "", "`TIME` at which the override ends, such as 2030-01-31T18:00:00Z")
	f.String("note", "", "`TEXT` for the next person, such as a ticket")
	c.register(cmd)
	return cmd
}

func newOverrideUnset() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:     "unset RULE [KEY...]",
		Short:   "Remove the override of a key",
		Long:    "Remove the override of a key of a rule, in a running server. What the key has used stays used.\n\n" + aboutKeys + aboutRules + about,
		Example: "  sluice override unset tenants acme",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeRules(cmd, http.MethodDelete, args[0], wanted{"key": args[1:]}, map[bool]string{false: "there was no override", true: "removed"})
		},
	}
	c.register(cmd)
	return cmd
}

func newOverrideGet() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:     "get RULE [KEY...]",
		Short:   "Show the override of a key, in JSON",
		Long:    "Show the override of a key of a rule: its numbers, its end, its note, and who set it when.\n\n" + aboutKeys + about,
		Example: "  sluice override get tenants acme",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			e := json.NewEncoder(cmd.OutOrStdout())
			if len(args) > 1 {
				var o wire.Override
				if err := c.call(cmd.Context(), http.MethodGet, overridesPath+"?"+url.Values{"rule": args[:1], "key": args[1:]}.Encode(), nil, &o); err != nil {
					return err
				}
				return e.Encode(&o)
			}
			for o, err := range c.overrides(cmd.Context(), url.Values{"rule": args}) {
				if err == nil && len(o.Key) > 0 {
					err = fmt.Errorf("keys of %s have values; give them: %s, or list all with sluice override list", args[0], usageOf(cmd))
				}
				if err != nil {
					return err
				}
				return e.Encode(o)
			}
			return fmt.Errorf("%s has no override by call; see its numbers with sluice peek", args[0])
		},
	}
	c.register(cmd)
	return cmd
}

// overrides returns all overrides that a query is about, until an error.
func (c *client) overrides(ctx context.Context, q url.Values) iter.Seq2[*wire.Override, error] {
	return func(yield func(*wire.Override, error) bool) {
		q.Set("most", strconv.Itoa(overrideBatch))
		for more := true; more; more = q.Get("from") != "" {
			var page wire.Overrides
			if err := c.call(ctx, http.MethodGet, overridesPath+"?"+q.Encode(), nil, &page); err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Overrides {
				if !yield(&page.Overrides[i], nil) {
					return
				}
			}
			q.Set("from", page.Next)
		}
	}
}

func newOverrideList() *cobra.Command {
	var c client
	var asJSON, ahead bool
	var prefix string
	cmd := &cobra.Command{
		Use:   "list [RULE]",
		Short: "List the overrides of a rule, or the rules that have some",
		Long: "List the overrides of a rule in a running server. Without RULE, list the rules that have some.\n" +
			"With --ahead, list the keys of the rule that have units ahead, and what is left of them.\n\n" + about,
		Example: "  sluice override list tenants --prefix ac\n  sluice override list tenants --ahead",
		Args:    mayHaveRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, q, none := cmd.OutOrStdout(), url.Values{}, "no key has an override by call"
			if ahead {
				q.Set("ahead", "true")
				none = "no key has units ahead"
			}
			if len(args) == 0 {
				var all wire.OverriddenRules
				if err := c.call(cmd.Context(), http.MethodGet, overridesPath+"?"+q.Encode(), nil, &all); err != nil {
					return err
				}
				for _, rule := range all.Rules {
					fmt.Fprintln(out, printable(rule)) // a terminal shows it or not
				}
				return nil
			}
			e, t := json.NewEncoder(out), newRows(out, "KEY", "NUMBERS", "UNTIL", "BY", "NOTE")
			found := false
			q["rule"], q["prefix"] = args, []string{prefix}
			for o, err := range c.overrides(cmd.Context(), q) {
				if found = true; err == nil && asJSON {
					err = e.Encode(o)
				}
				switch {
				case err != nil:
					return err
				case !asJSON:
					t.row(keyText(o.Key), termsText(o), endText(o), o.By, noteText(o))
				}
			}
			switch {
			case asJSON:
				return nil
			case !found:
				_, err := fmt.Fprintln(out, none)
				return err
			}
			return t.end()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each override")
	cmd.Flags().BoolVar(&ahead, "ahead", false, "list the keys with units ahead")
	cmd.Flags().StringVar(&prefix, "prefix", "", "list only keys of which a part begins with `TEXT`")
	c.register(cmd)
	return cmd
}

// endText describes when an override ends.
func endText(o *wire.Override) string {
	if o.Until.IsZero() {
		return "-"
	}
	return o.Until.UTC().Format(time.RFC3339)
}

// noteText is the note of an override, and why it is not in force.
func noteText(o *wire.Override) string {
	if o.NotInForce == "" {
		return o.Note
	}
	return strings.TrimSpace("not in force: " + o.NotInForce + " " + o.Note)
}

// termsText describes the numbers of an override.
func termsText(o *wire.Override) string {
	switch {
	case o.Ahead != nil:
		return fmt.Sprintf("%d of %d units ahead", o.Ahead.Remaining, o.Ahead.Units)
	case o.Unlimited:
		return "unlimited"
	case o.Deny:
		return "deny"
	case o.Plan != "":
		return "plan " + o.Plan
	case o.Limit != nil:
		return string(o.Limit)
	default:
		return string(o.Limits)
	}
}
