package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluicehq/sluice/server/internal/wire"
	"github.com/spf13/cobra"
)

func newHybrid() *cobra.Command {
	var c client
	var most int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "hybrid [RULE]",
		Short: "Show what hybrid limits do, and the keys with the most granted units",
		Long: "Show the hybrid limits of a running server, and the keys with the most granted units. Without\n" +
			"RULE, the limits and keys of all rules are shown.\n\n" +
			"The first table has, for each limit, the most and the least that it admits; the decisions on\n" +
			"granted units (LOCAL), by a denial that the server kept (KEPT), and by the store (STORE); and by\n" +
			"how many units a key was at most beyond its limit (EXCESS).\n\n" +
			"The second table has, for each key, the units that all servers have of it (GRANTED), how many\n" +
			"servers that are, and the units of this server: not spent yet, and not reported to the store\n" +
			"yet. Each server has its own grants, so call each of them.\n\n" + about,
		Example: "  sluice hybrid\n  sluice hybrid per-tenant --most 10",
		Args:    mayHaveRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"most": {strconv.Itoa(most)}}
			if len(args) > 0 {
				query.Set("rule", args[0])
			}
			var answer json.RawMessage
			if err := c.call(cmd.Context(), http.MethodGet, "/v1/hybrid?"+query.Encode(), nil, &answer); err != nil {
				return err
			}
			if asJSON {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", answer)
				return err
			}
			var h wire.Hybrid
			if err := json.Unmarshal(answer, &h); err != nil {
				return c.strange()
			}
			if err := printHybrid(cmd.OutOrStdout(), &h); err != nil || !h.More {
				return err
			}
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "there are more keys; --most lists up to 1000, and RULE the keys of one rule\n")
			return err
		},
	}
	cmd.Flags().IntVar(&most, "most", 20, "`NUMBER` of keys to list at most, up to 1000")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the server's answer, in JSON")
	c.register(cmd)
	return cmd
}

func printHybrid(out io.Writer, h *wire.Hybrid) error {
	if len(h.Limits) == 0 {
		_, err := fmt.Fprintln(out, "no limit is hybrid")
		return err
	}
	t := newRows(out, "LOCAL", "KEPT", "STORE", "EXCESS", "LAST SYNC", "LIMIT", "ADMITS")
	for i := range h.Limits {
		l := &h.Limits[i]
		last := "never"
		if l.LastSyncMS != nil {
			last = millis(*l.LastSyncMS) + " ago"
		}
		all := l.Local + l.Cached + l.Exact
		t.row(percent(l.Local, all), percent(l.Cached, all), percent(l.Exact, all), l.Excess, last, l.Limit, l.Bound)
	}
	if err := t.end(); err != nil {
		return err
	}
	if len(h.Keys) == 0 {
		_, err := fmt.Fprintln(out, "\nno key has granted units")
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	t = newRows(out, "GRANTED", "SERVERS", "UNSPENT", "UNREPORTED", "AGE", "ENDS IN", "LIMIT", "KEY")
	for i := range h.Keys {
		k := &h.Keys[i]
		t.row(k.Escrow, k.Holders, k.Unspent, k.Unreported, millis(k.AgeMS), millis(k.TillMS), k.Limit, keyOrDigest(k.Key, k.Digest))
	}
	return t.end()
}

// percent writes a part of a whole.
func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}
