package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/words"
	"github.com/spf13/cobra"
)

// question is a request as the command line describes it.
type question struct {
	path, method, host, clientIP string
	headers, cookies, queries    []string
	attributes, pressures        []string
	marked                       bool
}

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

// read makes the policy, and the request that it is asked about.
func (q *question) read(ctx context.Context, f *policyfile.File) (*policy.Policy, *policy.Attributes, error) {
	o, err := f.PolicyOptions()
	if err != nil {
		return nil, nil, err
	}
	if o.Pressure, err = q.pressure(f); err != nil {
		return nil, nil, err
	}
	p, err := policy.New(o)
	if err != nil {
		return nil, nil, err
	}
	r, err := q.request(ctx)
	if err != nil {
		return nil, nil, err
	}
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: f.TrustedProxies})
	if err != nil {
		return nil, nil, err
	}
	a := httplimit.Attributes(r, ip)
	a.Marked = q.marked || f.TrustMarks && ip.TrustsPeer(r) && httplimit.HasMark(r, p)
	if a.Values, err = q.withAttributes(a.Values); err != nil {
		return nil, nil, err
	}
	return p, &a, nil
}

// attributed are the named parts of an HTTP request, and attributes that it cannot have.
type attributed struct {
	policy.Values
	policy.ClaimValues
	attributes map[string]string
}

func (a attributed) Attribute(name string) (string, bool) {
	value, ok := a.attributes[name]
	return value, ok
}

func (q *question) withAttributes(v policy.Values) (policy.Values, error) {
	a := attributed{Values: v, attributes: map[string]string{}}
	a.ClaimValues, _ = v.(policy.ClaimValues) // those of HTTP requests are
	for _, text := range q.attributes {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--attribute is %q; write it as in protocol=smtp", text)
		}
		a.attributes[name] = value
	}
	return a, nil
}

// request makes the request.
func (q *question) request(ctx context.Context) (*http.Request, error) {
	if !strings.HasPrefix(q.path, "/") {
		return nil, fmt.Errorf("--path is %q; begin it with a slash", q.path)
	}
	addr, err := netip.ParseAddr(q.clientIP)
	if err != nil {
		return nil, fmt.Errorf("--client-ip is %q; give an address such as 192.0.2.1", q.clientIP)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, "http://localhost"+q.path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("--path or --method: %w", err)
	}
	r.Host, r.RemoteAddr = q.host, net.JoinHostPort(addr.String(), "1")
	for _, text := range q.headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header is %q; write it as in 'X-User: ann'", text)
		}
		if strings.EqualFold(name, "Host") {
			return nil, errors.New("--header is that of the host; give --host")
		}
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	for _, text := range q.cookies {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--cookie is %q; write it as in session=abc", text)
		}
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for _, text := range q.queries {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--query is %q; write it as in q=abc", text)
		}
		r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&"+url.QueryEscape(name)+"="+url.QueryEscape(value), "&")
	}
	return r, nil
}

// pressure reads the pressures on rules; nil if none is given.
func (q *question) pressure(f *policyfile.File) (func(string) float64, error) {
	if len(q.pressures) == 0 {
		return nil, nil //nolint:nilnil // that nobody knows is no error
	}
	known := map[string]bool{}
	for i := range f.Rules {
		known[f.Rules[i].Name] = true
	}
	of := map[string]float64{}
	for _, text := range q.pressures {
		name, number, _ := strings.Cut(text, "=")
		ratio, ok := policyfile.ParseRatio(number)
		switch {
		case !ok:
			return nil, fmt.Errorf("--pressure is %q; write it as in login=0.9", text)
		case !known[name]:
			return nil, fmt.Errorf("--pressure is of %q, which is no rule; give the name of one", name)
		}
		of[name] = float64(ratio)
	}
	return func(rule string) float64 { return of[rule] }, nil
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
func limitLine(m *policy.Met) (about, text string) {
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

// explanation is a trace as JSON.
type explanation struct {
	Method   string          `json:"method"`
	Path     string          `json:"path"`
	Others   []string        `json:"other_paths,omitempty"`
	Host     string          `json:"host"`
	ClientIP string          `json:"client_ip"`
	Class    string          `json:"class,omitempty"`
	Bypass   bool            `json:"bypass,omitempty"`
	Met      bool            `json:"met"`
	Default  string          `json:"default"`
	Stray    string          `json:"stray_path,omitempty"` // which the default refuses
	Rules    []explainedRule `json:"rules"`
}

type explainedRule struct {
	Rule    string           `json:"rule"`
	Met     bool             `json:"met"`
	Path    string           `json:"as_path,omitempty"` // by which it is met, if that is not the path above
	Because string           `json:"because,omitempty"` // it is not met
	Limited string           `json:"limited,omitempty"` // whatever the limits say
	Action  string           `json:"action,omitempty"`
	Shadow  bool             `json:"shadow,omitempty"`
	Key     []explainedPart  `json:"key,omitempty"`
	Limits  []explainedLimit `json:"limits,omitempty"`
}

type explainedPart struct {
	Part    string `json:"part"`
	Value   string `json:"value"`
	Missing bool   `json:"missing,omitempty"`
}

type explainedLimit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Role      string `json:"role"`
	Listed    string `json:"listed,omitempty"`
	Override  bool   `json:"override,omitempty"`
	Cost      int64  `json:"cost"`
	Settles   bool   `json:"settles,omitempty"`
	Floor     int64  `json:"floor,omitempty"`
}

func newExplanation(method string, t *policy.Trace) *explanation {
	e := &explanation{
		Method: method, Path: t.Path, Others: t.Others, Host: t.Host, ClientIP: t.ClientIP.String(), Class: t.Class, Bypass: t.Bypass,
		Met: t.Met(), Default: t.Default.String(), Stray: t.Stray, Rules: []explainedRule{},
	}
	for i := range t.Rules {
		r := &t.Rules[i]
		x := explainedRule{Rule: r.Rule.Name, Met: r.Unmet == "", Because: r.Unmet}
		if x.Met {
			if r.Path != t.Path {
				x.Path = r.Path
			}
			x.Action, x.Shadow, x.Limited = r.Rule.WhenLimited.Action.String(), r.Rule.Shadow, r.Denied.String()
		}
		for _, k := range r.Key {
			x.Key = append(x.Key, explainedPart{Part: k.Part.String(), Value: k.Value, Missing: !k.OK})
		}
		for j := range r.Met {
			m := &r.Met[j]
			if r.Rule.Always {
				x.Limited = "always"
				break
			}
			x.Limits = append(x.Limits, explainedLimit{
				Name: m.Request.Limit.Name(), Algorithm: m.Request.Limit.Algorithm().String(), Role: m.Role.String(), Listed: m.Listed.String(),
				Override: m.Override, Cost: m.Request.Cost, Settles: m.Settles(), Floor: m.Request.Floor,
			})
		}
		e.Rules = append(e.Rules, x)
	}
	return e
}
