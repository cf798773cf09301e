package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// about is what the commands for bans have in common.
const about = "The server is that of SLUICE_SERVER, or on this machine where the admin listener is\n" +
	"by default. With a store that servers share, it is enough to tell one of them. Each flag\n" +
	"about the server can be given in the environment: --server is SLUICE_SERVER. The admin token\n" +
	"is taken from SLUICE_ADMIN_TOKEN or from a file."

// keyedRule is the key of a rule as a command names it.
type keyedRule struct {
	Rule string   `json:"rule"`
	Key  []string `json:"key"`
}

func newBan() *cobra.Command {
	var c client
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "ban RULE [KEY...] --for TIME",
		Short: "Refuse a key of a rule outright for a time",
		Long: "Refuse a key of a rule outright for a time, in a server that runs. The key is given by the\n" +
			"values of the rule's key, in their order. The rule must have a ban in the policy, be it\n" +
			"{by_hand: true}. A ban takes the place of one in force.\n\n" + about,
		Example: "  sluice ban login 192.0.2.1 --for 1h\n  sluice ban per-user 192.0.2.1 ann --for 24h",
		Args:    needsRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if length < time.Millisecond {
				return errors.New("it is not said for how long; give --for 1h or another time of a millisecond or more")
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
	cmd.Flags().DurationVar(&length, "for", 0, "`TIME` that the ban lasts, such as 1h")
	c.register(cmd)
	return cmd
}

func newUnban() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "unban RULE [KEY...]",
		Short: "End the ban of a key",
		Long: "End the ban of a key of a rule, in a server that runs, whether denials led to it or\n" +
			"somebody made it. What led to it is forgotten. The key is given as to sluice ban.\n\n" + about,
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

// bannedKey is a ban as the server lists it.
type bannedKey struct {
	Rule   string   `json:"rule"`
	Limit  string   `json:"limit"`
	Key    []string `json:"key,omitzero"`
	Digest string   `json:"digest,omitempty"`
	LeftMS int64    `json:"left_ms"`
	InRow  int      `json:"in_row,omitempty"`
	ByHand bool     `json:"by_hand,omitempty"`
}

func newBans() *cobra.Command {
	var c client
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bans",
		Short: "List the keys that are banned",
		Long: "List the keys that are banned, in a server that runs: the rule and the key as sluice unban\n" +
			"takes them, how long the ban still lasts, and what led to it. Those whose key the store\n" +
			"does not keep are listed by a digest, in angle brackets.\n\n" + about,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := c.bans(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				for i := range all {
					if err := e.Encode(&all[i]); err != nil {
						return err
					}
				}
				return nil
			}
			return printBans(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each, as the API has it")
	c.register(cmd)
	return cmd
}

// bans returns all bans, each once; those that end first come first.
func (c *client) bans(cmd *cobra.Command) ([]bannedKey, error) {
	var all []bannedKey
	seen := map[string]bool{}
	for from := ""; ; {
		var page struct {
			Bans []bannedKey
			Next string
		}
		if err := c.call(cmd.Context(), http.MethodGet, "/v1/bans?most=1000&from="+url.QueryEscape(from), nil, &page); err != nil {
			return nil, err
		}
		for _, b := range page.Bans {
			// A store may list some twice.
			if id := fmt.Sprintf("%q %q %q", b.Limit, b.Key, b.Digest); !seen[id] {
				seen[id] = true
				all = append(all, b)
			}
		}
		if from = page.Next; from == "" {
			slices.SortStableFunc(all, func(a, b bannedKey) int { return int(a.LeftMS - b.LeftMS) })
			return all, nil
		}
	}
}

func printBans(out io.Writer, all []bannedKey) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "nobody is banned")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LEFT\tWHY\tRULE\tKEY") // Flush tells of errors
	for i := range all {
		b := &all[i]
		why := "denials"
		switch {
		case b.ByHand:
			why = "by hand"
		case b.InRow > 1:
			why = fmt.Sprintf("denials, %d in a row", b.InRow)
		}
		key := keyText(b.Key)
		if b.Digest != "" {
			key = "<" + printable(b.Digest) + ">"
		}
		left := (time.Duration(b.LeftMS) * time.Millisecond).Round(time.Second)
		fmt.Fprintf(w, "%v\t%s\t%s\t%s\n", left, why, printable(b.Rule), key)
	}
	return w.Flush()
}

// plainText is what a shell and a reader take as it is.
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

// needsRule asks for the name of a rule.
func needsRule(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs the name of a rule: sluice %s", cmd.Name(), cmd.Use)
	}
	return nil
}
