package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
	"github.com/spf13/cobra"
)

func newBan() *cobra.Command {
	var c client
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "ban RULE [KEY...] --for TIME",
		Short: "Refuse all requests of a key for a time",
		Long: "Refuse all requests of a key of a rule for a time, in a running server. The rule must have\n" +
			"a ban in the policy; {by_hand: true} is enough. The ban replaces a ban in force.\n\n" + aboutKeys + about,
		Example: "  sluice ban login 192.0.2.1 --for 1h\n  sluice ban per-user 192.0.2.1 ann --for 24h",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if length < time.Millisecond {
				return errors.New("ban needs a time: give --for 1h, or another time of a millisecond or more")
			}
			q := struct {
				keyedRule
				ForMS int64 `json:"for_ms"`
			}{keyedRule{args[0], args[1:]}, int64(length / time.Millisecond)}
			var answer struct{}
			if err := c.call(cmd.Context(), http.MethodPost, "/v1/bans", q, &answer); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "banned by %s for %v: %s\n", q.Rule, length, keyText(q.Key))
			return err
		},
	}
	cmd.Flags().Var((*duration)(&length), "for", "`TIME` until the ban ends, such as 1h")
	c.register(cmd)
	return cmd
}

func newUnban() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "unban RULE [KEY...]",
		Short: "End the ban of a key",
		Long: "End the ban of a key of a rule, in a running server, whether denials caused it or somebody\n" +
			"made it. The denials that caused it are forgotten.\n\n" + aboutKeys + about,
		Example: "  sluice unban login 192.0.2.1",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := keyedRule{args[0], args[1:]}
			var answer struct{ Lifted bool }
			if err := c.call(cmd.Context(), http.MethodDelete, "/v1/bans", q, &answer); err != nil {
				return err
			}
			what := "was not banned"
			if answer.Lifted {
				what = "no longer banned"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s by %s: %s\n", what, q.Rule, keyText(q.Key))
			return err
		},
	}
	c.register(cmd)
	return cmd
}

func newBans() *cobra.Command {
	var c client
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bans",
		Short: "List the keys that are banned",
		Long: "List the banned keys of a running server: the rule and the key as sluice unban takes them,\n" +
			"the time until the ban ends, and its cause. A key whose text the store does not keep is\n" +
			"listed as a digest in angle brackets.\n\n" + about,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := c.bans(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return printLines(cmd.OutOrStdout(), all)
			}
			return printBans(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each ban")
	c.register(cmd)
	return cmd
}

// bans returns all bans, each once. The bans that end first come first.
func (c *client) bans(cmd *cobra.Command) ([]wire.Ban, error) {
	var all []wire.Ban
	seen := map[string]bool{}
	for from := ""; ; {
		var page wire.Bans
		if err := c.call(cmd.Context(), http.MethodGet, "/v1/bans?most=1000&from="+url.QueryEscape(from), nil, &page); err != nil {
			return nil, err
		}
		for _, b := range page.Bans {
			// A store may list a ban twice.
			if id := fmt.Sprintf("%q %q %q", b.Limit, b.Key, b.Digest); !seen[id] {
				seen[id] = true
				all = append(all, b)
			}
		}
		if from = page.Next; from == "" {
			slices.SortStableFunc(all, func(a, b wire.Ban) int { return cmp.Compare(a.LeftMS, b.LeftMS) })
			return all, nil
		}
	}
}

func printBans(out io.Writer, all []wire.Ban) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no key is banned")
		return err
	}
	t := newRows(out, "LEFT", "WHY", "RULE", "KEY")
	for i := range all {
		b := &all[i]
		why := "denials"
		switch {
		case b.ByHand:
			why = "by hand"
		case b.InRow > 1:
			why = fmt.Sprintf("denials, %d in a row", b.InRow)
		}
		key := b.Key
		if b.Digest != "" {
			key = nil
		}
		t.row((time.Duration(b.LeftMS) * time.Millisecond).Round(time.Second), why, b.Rule, keyOrDigest(key, b.Digest))
	}
	return t.end()
}
