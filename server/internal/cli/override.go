package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
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
	"github.com/spf13/pflag"
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

// wanted is an override as a call sets it, by the names of its fields.
type wanted map[string]any

// set sets the field of a column or a flag. The server reports what does not fit.
func (q wanted) set(name, text string) (err error) {
	switch {
	case text == "":
	case name == "limits" && !json.Valid([]byte(text)):
		return errors.New(`the limits are not JSON; give a list such as '[{"rate": "5000/m"}, {}]', with {} for a limit that stays as it is`)
	case name == "limits":
		q[name] = json.RawMessage(text)
	case name == "unlimited" || name == "deny":
		q[name], err = strconv.ParseBool(text)
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
	return err
}

func newOverrideSet() *cobra.Command {
	var c client
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "set RULE [KEY...] --rate RATE",
		Short: "Give a key other numbers, for ever or for a time",
		Long: "Give a key of a rule other numbers in a running server, in place of an override that it has. A\n" +
			"number that is not given is the rule's. What the key has used stays used.\n\n" + aboutKeys + about,
		Example: "  sluice override set tenants acme --rate 5000/m --for 72h --note \"sale\"\n" +
			"  sluice override set tenants acme --unlimited --until 2030-01-31T18:00:00Z",
		Args: needsRule,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			q := wanted{"rule": args[0], "key": args[1:]}
			if length != 0 {
				q["for_ms"] = int64(length / time.Millisecond)
			}
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if name := strings.ReplaceAll(f.Name, "-", "_"); err == nil && slices.Contains(columnsOf(0), name) {
					if err = q.set(name, f.Value.String()); err != nil {
						err = fmt.Errorf("--%s: %w", f.Name, err)
					}
				}
			})
			if err != nil {
				return err
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s for %s%s: %s\n", what, args[0], end, keyText(args[1:]))
			return err
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
	f.Var((*duration)(&length), "for", "`TIME` until the override ends, such as 72h")
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

// overrides returns the overrides of a rule, until an error.
func (c *client) overrides(ctx context.Context, rule, prefix string) iter.Seq2[*wire.Override, error] {
	return func(yield func(*wire.Override, error) bool) {
		for from, more := "", true; more; more = from != "" {
			q := url.Values{"rule": {rule}, "prefix": {prefix}, "from": {from}, "most": {strconv.Itoa(overrideBatch)}}
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
			from = page.Next
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
			w, e := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), json.NewEncoder(out)
			if !asJSON {
				fmt.Fprintln(w, "KEY\tNUMBERS\tUNTIL\tBY\tNOTE") // Flush reports errors
			}
			for o, err := range c.overrides(cmd.Context(), args[0], prefix) {
				if err == nil && asJSON {
					err = e.Encode(o)
				}
				if err != nil {
					return errors.Join(err, w.Flush())
				}
				if asJSON {
					continue
				}
				until, note := "-", printable(o.Note)
				if o.Until != nil {
					until = o.Until.UTC().Format(time.RFC3339)
				}
				if o.NotInForce != "" {
					note = strings.TrimSpace("not in force: " + printable(o.NotInForce) + " " + note)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", keyText(o.Key), printable(termsText(o)), until, printable(o.By), note)
			}
			return w.Flush()
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
			defer w.Flush()
			begun := false
			for o, err := range c.overrides(cmd.Context(), args[0], "") {
				if err == nil && !begun {
					begun, err = true, w.Write(columnsOf(len(o.Key)))
				}
				if err == nil {
					err = writeRow(w, o)
				}
				if err != nil {
					return err
				}
			}
			w.Flush()
			return w.Error()
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

// writeRow writes the row of an override.
func writeRow(w *csv.Writer, o *wire.Override) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	fields := map[string]json.RawMessage{}
	for _, text := range []string{string(text), cmp.Or(string(o.Limit), "{}")} {
		if err := json.Unmarshal([]byte(text), &fields); err != nil { // the names of numbers differ from the names of fields
			return fmt.Errorf("the numbers of %s are not from Sluice: %w", keyText(o.Key), err)
		}
	}
	row := slices.Clone(o.Key)
	for _, name := range columnsOf(0) {
		word := string(fields[name])
		_ = json.Unmarshal(fields[name], &word) // numbers and lists stay as they are
		row = append(row, word)
	}
	return w.Write(row)
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
		key, q := []string{}, wanted{"rule": rule}
		for i, name := range columns {
			if name == "key" {
				key = append(key, row[i])
			} else if err := q.set(name, row[i]); err != nil {
				return nil, nil, fmt.Errorf("line %d: %s: %w; nothing was set", line, name, err)
			}
		}
		q["key"] = key
		all, lines = append(all, q), append(lines, line)
	}
}
