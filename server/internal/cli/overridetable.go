package cli

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluicehq/sluice/server/internal/wire"
	"github.com/spf13/cobra"
)

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
			parts := -1
			for o, err := range c.overrides(cmd.Context(), url.Values{"rule": args}) {
				if err == nil && parts < 0 {
					parts = len(o.Key)
					err = w.Write(columnsOf(parts))
				}
				switch {
				case err != nil:
				case len(o.Key) != parts:
					err = fmt.Errorf("the key %s has %d parts, and others of the rule have %d, because the rule's key was changed; remove the overrides that list shows as not in force", keyText(o.Key), len(o.Key), parts)
				default:
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
	if i := slices.IndexFunc(o.Key, func(part string) bool { return strings.Contains(part, "\r\n") }); i >= 0 {
		return fmt.Errorf("the key %s has a line break that tables read in another way; remove its override, and set it by itself", keyText(o.Key))
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
				return fmt.Errorf("%s: %w; nothing was set", args[1], err)
			}
			warned := false
			for at, end := 0, 0; at < len(all); at = end {
				for size := 0; end < len(all) && end < at+overrideBatch && (end == at || size+len(all[end]) <= batchBytes); end++ {
					size += len(all[end])
				}
				answers, err := c.changeOverrides(cmd.Context(), http.MethodPut, all[at:end], func(i int) string { return fmt.Sprint("line ", lines[at+i]) })
				switch {
				case err != nil && at > 0:
					return fmt.Errorf("%s: %w; the lines before line %d are set", args[1], err, lines[at])
				case err != nil:
					return fmt.Errorf("%s: %w", args[1], err)
				}
				if i := slices.IndexFunc(answers, func(a wire.OverrideChanged) bool { return a.Warning != "" }); i >= 0 && !warned {
					warned = true // other lines are alike
					if err := warn(cmd, fmt.Sprintf("line %d: ", lines[at+i]), answers[i].Warning); err != nil {
						return err
					}
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "set for %s: %d overrides\n", args[0], len(all))
			return err
		},
	}
	c.register(cmd)
	return cmd
}

// readOverrides reads a table: the JSON of its overrides, and the lines on which they are.
func readOverrides(in io.Reader, rule string) (all []json.RawMessage, lines []int, err error) {
	r := csv.NewReader(in)
	places := map[string]int{} // the lines of keys
	columns, err := r.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("the first line cannot be read: %w; name the columns there, as in key,rate,until", err)
	}
	for i, name := range columns {
		columns[i] = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		switch known := columnsOf(1); {
		case !slices.Contains(known, columns[i]):
			return nil, nil, fmt.Errorf("line 1: %q is not a column; the columns are %s", columns[i], strings.Join(known, ", "))
		case columns[i] != "key" && slices.Contains(columns[:i], columns[i]):
			return nil, nil, fmt.Errorf("line 1: the column %s is there twice; remove one of them", columns[i])
		}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, lines, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w; give one value for each column, and empty ones for what is not given", err)
		}
		line, _ := r.FieldPos(0)
		key, q := []string{}, wanted{"rule": rule}
		for i, name := range columns {
			if !utf8.ValidString(row[i]) {
				return nil, nil, fmt.Errorf("line %d: %s: %q is not UTF-8; save the file as UTF-8", line, name, row[i])
			}
			if name == "key" {
				key = append(key, row[i])
			} else if err := q.set(name, row[i]); err != nil {
				return nil, nil, fmt.Errorf("line %d: %s: %w", line, name, err)
			}
		}
		q["key"] = key
		if first, found := places[strings.Join(key, "\xff")]; found {
			return nil, nil, fmt.Errorf("line %d: the key is the key of line %d too; give each key once", line, first)
		}
		places[strings.Join(key, "\xff")] = line
		text, err := json.Marshal(q)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", line, err)
		}
		all, lines = append(all, text), append(lines, line)
	}
}
