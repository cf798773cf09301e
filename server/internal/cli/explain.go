package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/words"
	"github.com/spf13/cobra"
)

func newExplain() *cobra.Command {
	var s settings
	var q question
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain -c FILE --path PATH",
		Short: "Say which rules a request meets, and why not the others",
		Long: "Say which rules of a configuration a request would meet, with their keys and limits,\n" +
			"and of the others, which condition fails first. No store is asked and no server is\n" +
			"needed: whether a limit has room is for sluice serve to say, at /v1/peek.\n\n" +
			"What the key of a request holds is printed as it is.",
		Example: "  sluice explain -c sluice.yaml --path /login --method POST --header 'X-User: ann' --client-ip 192.0.2.1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, _, err := s.load()
			if err != nil {
				return err
			}
			p, a, err := q.read(cmd.Context(), f)
			if err != nil {
				return err
			}
			t := p.Trace(a)
			out := cmd.OutOrStdout()
			if asJSON {
				e := json.NewEncoder(out)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(newExplanation(a.Method, &t))
			}
			_, err = io.WriteString(out, explainInWords(a.Method, &t))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&s.config, "config", "c", "", "configuration `FILE`; without one, the quick-start policy")
	flags.StringVar(&q.path, "path", "/", "`PATH` as clients send it, with a query or without")
	flags.StringVarP(&q.method, "method", "X", http.MethodGet, "`METHOD`")
	flags.StringVar(&q.host, "host", "localhost", "`HOST` that is asked for")
	flags.StringVar(&q.clientIP, "client-ip", "127.0.0.1", "`ADDRESS` of the connection; X-Forwarded-For counts if that is a trusted proxy")
	flags.StringArrayVarP(&q.headers, "header", "H", nil, "`'NAME: VALUE'` of a header; can be repeated")
	flags.StringArrayVar(&q.cookies, "cookie", nil, "`NAME=VALUE` of a cookie; can be repeated")
	flags.StringArrayVar(&q.queries, "query", nil, "`NAME=VALUE` of a parameter; can be repeated")
	flags.StringArrayVar(&q.attributes, "attribute", nil, "`NAME=VALUE` of an attribute, as the API is told of; can be repeated")
	flags.StringArrayVar(&q.pressures, "pressure", nil, "`RULE=NUMBER`, the pressure on a rule, such as login=0.9; can be repeated")
	flags.BoolVar(&q.marked, "marked", false, "the request is marked")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// explainInWords says what the rules make of a request.
func explainInWords(method string, t *policy.Trace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s of %s from %s", method, t.Path, t.Host, t.ClientIP)
	if t.Class != "" {
		fmt.Fprintf(&b, ", class %s", t.Class)
	}
	b.WriteByte('\n')
	if len(t.Others) > 0 {
		fmt.Fprintf(&b, "read by other services as %s\n", strings.Join(t.Others, " or "))
	}
	switch {
	case t.Bypass:
		b.WriteString("meets no rule: its class bypasses them\n")
		return b.String()
	case t.Stray != "":
		fmt.Fprintf(&b, "is refused by the default, for %s meets no rule; otherwise meets\n", t.Stray)
	case t.Met():
		b.WriteString("meets\n")
	case t.Default == policy.Deny:
		b.WriteString("meets no rule, and is refused by the default\n")
	default:
		b.WriteString("meets no rule, and passes by the default\n")
	}
	heading := "does not meet\n"
	var rest strings.Builder
	for i := range t.Rules {
		r := &t.Rules[i]
		if r.Unmet != "" {
			fmt.Fprintf(&rest, "%s  rule %s: %s\n", heading, r.Rule.Name, r.Unmet)
			heading = ""
			continue
		}
		fmt.Fprintf(&b, "  rule %s\n", r.Rule.Name)
		if r.Path != t.Path {
			writeLines(&b, []words.Line{{About: "as", Text: r.Path}})
		}
		writeLines(&b, explainRule(r))
	}
	return b.String() + rest.String()
}

// explainRule says what a rule asks that is met.
func explainRule(r *policy.TracedRule) []words.Line {
	var lines []words.Line
	var missing *policy.Part
	for i := range r.Key {
		k := &r.Key[i]
		switch {
		case !k.OK && k.Part.OnMissing == policy.MissingDeny:
			missing = &k.Part
			lines = append(lines, words.Line{About: "key", Text: k.Part.String() + " is missing, and must be there"})
		case !k.OK:
			lines = append(lines, words.Line{About: "key", Text: k.Part.String() + " is missing, as for all who share that"})
		case k.Part.Source != policy.FromConstant:
			lines = append(lines, words.Line{About: "key", Text: fmt.Sprintf("%s = %s", k.Part, k.Value)})
		}
	}
	listed := false
	for i := range r.Met {
		m := &r.Met[i]
		about, text := limitLine(m)
		listed = m.Listed != policy.NotListed
		switch {
		case r.Rule.Always:
			about, text = "limits", "always"
		case listed:
			about, text = "listed", "on the "+m.Listed.String()+" list, so no limit is asked"
		}
		lines = append(lines, words.Line{About: about, Text: text})
	}
	if r.Denied != sluice.ReasonNone && !r.Rule.Always && !listed {
		lines = append(lines, words.Line{About: "so", Text: "it is limited at once: " + r.Denied.String()})
	}
	rule := *r.Rule
	if answer := &rule.WhenLimited; answer.Action == policy.Deny && answer.Status == 0 {
		answer.Status = httplimit.Status(&policy.Verdict{Action: policy.Deny, Reason: r.Denied, Missing: missing})
	}
	for _, l := range words.Rule(&rule, false) {
		if l.About == "otherwise" || l.About == "in shadow" || l.About == "paces" {
			lines = append(lines, l)
		}
	}
	return lines
}

// limitLine says one limit that is met.
func limitLine(m *policy.LimitResult) (about, text string) {
	about = "may"
	if m.Role == policy.RoleCandidate {
		about = "tries"
	}
	text = words.Limit(m.Request.Limit)
	if m.Override {
		text += ", by an override"
	}
	if m.Request.Cost != 1 {
		text += fmt.Sprintf(", cost %d", m.Request.Cost)
	}
	if m.Settles() {
		text += ", to be settled"
	}
	if m.Request.Floor > 0 {
		text += fmt.Sprintf(", leaving %d", m.Request.Floor)
	}
	return about, text + ", kept as " + m.Request.Limit.Name()
}
