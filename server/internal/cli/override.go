package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
	"github.com/spf13/cobra"
)

const overridesPath = "/v1/overrides"

// overrideBatch is how many overrides a call of import sets.
const overrideBatch = 1000

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

// wanted is an override as a call sets it.
type wanted struct {
	Rule      string          `json:"rule"`
	Key       []string        `json:"key"`
	Limit     map[string]any  `json:"limit,omitempty"`
	Limits    json.RawMessage `json:"limits,omitempty"`
	Plan      string          `json:"plan,omitempty"`
	Unlimited bool            `json:"unlimited,omitempty"`
	Deny      bool            `json:"deny,omitempty"`
	ForMS     int64           `json:"for_ms,omitempty"`
	Until     string          `json:"until,omitempty"`
	Note      string          `json:"note,omitempty"`
}

// number sets a number of the limit. The server reports what does not fit.
func (q *wanted) number(name, text string) {
	if q.Limit == nil {
		q.Limit = map[string]any{}
	}
	q.Limit[name] = text
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		q.Limit[name] = n
	}
}

// limits sets the numbers of several limits, as JSON.
func (q *wanted) limits(text string) error {
	if !json.Valid([]byte(text)) {
		return errors.New(`the limits are not JSON; give a list such as '[{"rate": "5000/m"}, {}]', with {} for a limit that stays as it is`)
	}
	q.Limits = json.RawMessage(text)
	return nil
}

func newOverrideSet() *cobra.Command {
	var c client
	var q wanted
	var limits string
	var length time.Duration
	numbers := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "set RULE [KEY...] --rate RATE",
		Short: "Give a key other numbers, for ever or for a time",
		Long: "Give a key of a rule other numbers in a running server, in place of an override that it has. A\n" +
			"number that is not given is the rule's. What the key has used stays used.\n\n" + aboutKeys + about,
		Example: "  sluice override set tenants acme --rate 5000/m --for 72h --note \"sale\"\n" +
			"  sluice override set tenants acme --unlimited --until 2030-01-31T18:00:00Z",
		Args: needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Rule, q.Key, q.ForMS = args[0], args[1:], int64(length/time.Millisecond)
			for name, text := range numbers {
				if *text != "" {
					q.number(name, *text)
				}
			}
			if limits != "" {
				if err := q.limits(limits); err != nil {
					return fmt.Errorf("--limits: %w", err)
				}
			}
			var answer wire.OverrideChanged
			if err := c.call(cmd.Context(), http.MethodPut, overridesPath, q, &answer); err != nil {
				return err
			}
			what, end := "set", ""
			if answer.Existed {
				what = "replaced"
			}
			if answer.Until != nil {
				end = " until " + answer.Until.UTC().Format(time.RFC3339)
			}
			if answer.Kept == "memory" {
				end += "; it ends with the server, which has no file of states"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s for %s%s: %s\n", what, q.Rule, end, keyText(q.Key))
			return err
		},
	}
	f := cmd.Flags()
	for _, n := range numberColumns {
		numbers[n.name] = f.String(strings.ReplaceAll(n.name, "_", "-"), "", n.what)
	}
	f.StringVar(&limits, "limits", "", "numbers of all limits of a rule with several, as `JSON`")
	f.StringVar(&q.Plan, "plan", "", "`NAME` of a plan of the file, in place of numbers")
	f.BoolVar(&q.Unlimited, "unlimited", false, "let the key pass without limits")
	f.BoolVar(&q.Deny, "deny", false, "refuse the key")
	f.Var((*duration)(&length), "for", "`TIME` until the override ends, such as 72h")
	f.StringVar(&q.Until, "until", "", "`TIME` at which the override ends, such as 2030-01-31T18:00:00Z")
	f.StringVar(&q.Note, "note", "", "`TEXT` for the next person, such as a ticket")
	c.register(cmd)
	return cmd
}

func newOverrideUnset() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:     "unset RULE [KEY...]",
		Short:   "Remove the override of a key",
		Long:    "Remove the override of a key of a rule, in a running server. What the key has used stays used.\n\n" + aboutKeys + about,
		Example: "  sluice override unset tenants acme",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := keyedRule{args[0], args[1:]}
			var answer wire.OverrideChanged
			if err := c.call(cmd.Context(), http.MethodDelete, overridesPath, q, &answer); err != nil {
				return err
			}
			what := "there was no override"
			if answer.Existed {
				what = "removed"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s for %s: %s\n", what, q.Rule, keyText(q.Key))
			return err
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
			q := url.Values{"rule": {args[0]}, "key": args[1:]}
			if len(args) == 1 {
				q["key"] = []string{}
			}
			text, err := c.answer(cmd.Context(), http.MethodGet, overridesPath+"?"+q.Encode(), nil)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", bytes.TrimSpace(text))
			return err
		},
	}
	c.register(cmd)
	return cmd
}

// overrides calls a function with each page of the overrides of a rule.
func (c *client) overrides(cmd *cobra.Command, rule, prefix string, each func([]wire.Override) error) error {
	for from := ""; ; {
		q := url.Values{"rule": {rule}, "prefix": {prefix}, "from": {from}, "most": {strconv.Itoa(overrideBatch)}}
		var page wire.Overrides
		if err := c.call(cmd.Context(), http.MethodGet, overridesPath+"?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		if err := each(page.Overrides); err != nil {
			return err
		}
		if from = page.Next; from == "" {
			return nil
		}
	}
}

func newOverrideList() *cobra.Command {
	var c client
	var asJSON bool
	var prefix string
	cmd := &cobra.Command{
		Use:     "list [RULE]",
		Short:   "List the overrides of a rule, or the rules that have some",
		Long:    "List the overrides of a rule in a running server. Without RULE, list the rules that have some.\n\n" + about,
		Example: "  sluice override list tenants --prefix ac",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if len(args) == 0 {
				var all wire.OverriddenRules
				if err := c.call(cmd.Context(), http.MethodGet, overridesPath, nil, &all); err != nil {
					return err
				}
				for _, rule := range all.Rules {
					fmt.Fprintln(out, printable(rule)) // a terminal shows it or not
				}
				return nil
			}
			if asJSON {
				e := json.NewEncoder(out)
				return c.overrides(cmd, args[0], prefix, func(page []wire.Override) error {
					for i := range page {
						if err := e.Encode(&page[i]); err != nil {
							return err
						}
					}
					return nil
				})
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "KEY\tNUMBERS\tUNTIL\tBY\tNOTE") // Flush reports errors
			err := c.overrides(cmd, args[0], prefix, func(page []wire.Override) error {
				for i := range page {
					o := &page[i]
					until := "-"
					if o.Until != nil {
						until = o.Until.UTC().Format(time.RFC3339)
					}
					note := printable(o.Note)
					if o.NotInForce != "" {
						note = strings.TrimSpace("not in force: " + printable(o.NotInForce) + " " + note)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", keyText(o.Key), printable(termsText(o)), until, printable(o.By), note)
				}
				return nil
			})
			return errors.Join(err, w.Flush())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each override")
	cmd.Flags().StringVar(&prefix, "prefix", "", "list only keys of which a part begins with `TEXT`")
	c.register(cmd)
	return cmd
}

// termsText describes the numbers of an override.
func termsText(o *wire.Override) string {
	switch {
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

// otherColumns are the columns of a table beside key and the numbers.
var otherColumns = []string{"limits", "plan", "unlimited", "deny", "until", "note"}

func newOverrideExport() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:     "export RULE",
		Short:   "Write the overrides of a rule as a table, which import reads",
		Long:    "Write the overrides of a rule as comma-separated values, which import reads.\n\n" + about,
		Example: "  sluice override export tenants > tenants.csv",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			w := csv.NewWriter(cmd.OutOrStdout())
			begun := false
			err := c.overrides(cmd, args[0], "", func(page []wire.Override) error {
				for i := range page {
					if !begun {
						begun = true
						if err := w.Write(columnsOf(len(page[i].Key))); err != nil {
							return err
						}
					}
					row, err := rowOf(&page[i])
					if err != nil {
						return err
					}
					if err := w.Write(row); err != nil {
						return err
					}
				}
				return nil
			})
			w.Flush()
			return errors.Join(err, w.Error())
		},
	}
	c.register(cmd)
	return cmd
}

// columnsOf returns the names of all columns of a table of keys with some parts.
func columnsOf(parts int) []string {
	row := slices.Repeat([]string{"key"}, parts)
	for _, n := range numberColumns {
		row = append(row, n.name)
	}
	return append(row, otherColumns...)
}

// rowOf returns the row of an override.
func rowOf(o *wire.Override) ([]string, error) {
	limit := map[string]any{}
	if o.Limit != nil {
		d := json.NewDecoder(bytes.NewReader(o.Limit))
		d.UseNumber()
		if err := d.Decode(&limit); err != nil {
			return nil, fmt.Errorf("the numbers of %s are not from Sluice: %w", keyText(o.Key), err)
		}
	}
	row := slices.Clone(o.Key)
	for _, n := range numberColumns {
		text := ""
		if v, given := limit[n.name]; given {
			text = fmt.Sprint(v)
		}
		row = append(row, text)
	}
	until := ""
	if o.Until != nil {
		until = o.Until.UTC().Format(time.RFC3339)
	}
	word := func(is bool) string {
		if is {
			return "true"
		}
		return ""
	}
	return append(row, string(o.Limits), o.Plan, word(o.Unlimited), word(o.Deny), until, o.Note), nil
}

func newOverrideImport() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "import RULE FILE",
		Short: "Set the overrides of a table",
		Long: "Set the overrides of a table of comma-separated values, 1,000 in a call. The first line names the\n" +
			"columns: key, once for each part of the rule's key, then numbers such as rate and burst, and limits,\n" +
			"plan, unlimited, deny, until and note. Empty fields are not given. Other overrides stay. FILE may be - for\n" +
			"the standard input.\n\n" + about,
		Example: "  sluice override import tenants tenants.csv",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("import needs a rule and a file: sluice override import RULE FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if args[1] != "-" {
				file, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			all, lines, err := readOverrides(in, args[0])
			if err != nil {
				return fmt.Errorf("%s: %w", args[1], err)
			}
			for at := 0; at < len(all); at += overrideBatch {
				end := min(at+overrideBatch, len(all))
				var answer wire.OverridesChanged
				if err := c.call(cmd.Context(), http.MethodPut, overridesPath, map[string]any{"overrides": all[at:end]}, &answer); err != nil {
					return fmt.Errorf("%s: %w; overrides[0] of the call is on line %d, the lines before are set, and the lines from there on are not", args[1], err, lines[at])
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "set for %s: %d overrides\n", args[0], len(all))
			return err
		},
	}
	c.register(cmd)
	return cmd
}

// readOverrides reads a table, and the lines on which its overrides are.
func readOverrides(in io.Reader, rule string) (all []wanted, lines []int, err error) {
	r := csv.NewReader(in)
	r.Comment = '#'
	columns, err := r.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("the first line cannot be read: %w; name the columns there, as in key,rate,until", err)
	}
	for i, name := range columns {
		columns[i] = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if known := columnsOf(1); !slices.Contains(known, columns[i]) {
			return nil, nil, fmt.Errorf("line 1: %q is not a column; the columns are %s", columns[i], strings.Join(known, ", "))
		}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, lines, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w; nothing was set", err)
		}
		line, _ := r.FieldPos(0)
		q := wanted{Rule: rule, Key: []string{}}
		for i, name := range columns {
			if err := q.field(name, row[i]); err != nil {
				return nil, nil, fmt.Errorf("line %d: %s: %w; nothing was set", line, name, err)
			}
		}
		all, lines = append(all, q), append(lines, line)
	}
}

// field sets the field of a column.
func (q *wanted) field(name, text string) (err error) {
	switch {
	case name == "key":
		q.Key = append(q.Key, text)
	case text == "":
	case name == "limits":
		err = q.limits(text)
	case name == "plan":
		q.Plan = text
	case name == "unlimited":
		q.Unlimited, err = strconv.ParseBool(text)
	case name == "deny":
		q.Deny, err = strconv.ParseBool(text)
	case name == "until":
		q.Until = text
	case name == "note":
		q.Note = text
	default:
		q.number(name, text)
	}
	return err
}
