package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// rows writes a table for a terminal: the names of the columns, and then the rows.
type rows struct{ w *tabwriter.Writer }

func newRows(out io.Writer, columns ...any) rows {
	t := rows{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(columns...)
	return t
}

// row adds a row. Values of a server cannot move the cursor.
func (t rows) row(values ...any) {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = printable(fmt.Sprint(v))
	}
	fmt.Fprintln(t.w, strings.Join(words, "\t")) // end reports errors
}

func (t rows) end() error { return t.w.Flush() }

// keyOrDigest writes a key as arguments, or its digest if the values are not known.
func keyOrDigest(values []string, digest string) string {
	if values == nil {
		return "<" + digest + ">"
	}
	return keyText(values)
}

// printLines prints a line of JSON for each entry of a list.
func printLines[T any](out io.Writer, all []T) error {
	e := json.NewEncoder(out)
	for i := range all {
		if err := e.Encode(&all[i]); err != nil {
			return err
		}
	}
	return nil
}
