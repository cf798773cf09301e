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
	"slices"
	"strings"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"
)

func newExplain() *cobra.Command {
	var s settings
	var q exampleRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Show which rules a request matches, and why it does not match the others",
		Long: "Show which rules of a configuration file a request matches, with keys and limits,\n" +
			"and which condition of each other rule fails first. Without FILE, the file is\n" +
			"SLUICE_CONFIG, or else the quick-start policy. With --domain and --entry, show which\n" +
			"rule a descriptor of a gateway matches.\n\n" +
			"No server is needed. So overrides by call do not count: these are in the store. To see them,\n" +
			"and what is left of a limit, in a running server, use sluice peek.\n\n" +
			"The output contains the values of the request's keys.",
		Example: "  sluice explain sluice.yaml --path /login --method POST --header 'X-User: ann' --client-ip 192.0.2.1\n" +
			"  sluice explain sluice.yaml --domain edge --entry tenant=acme --entry path=/login",
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.setFile(args)
			f, _, err := s.load()
			if err != nil {
				return err
			}
			if q.domain != "" || len(q.entries) > 0 {
				return q.explainDescriptor(cmd.OutOrStdout(), f, asJSON)
			}
			p, a, err := q.read(cmd.Context(), f)
			if err != nil {
				return err
			}
			t := p.Trace(a)
			out := cmd.OutOrStdout()
			if limits := p.LimitsFor(a); slices.ContainsFunc(limits, func(m policy.LimitResult) bool { return m.Listed == policy.NotListed }) {
				fmt.Fprintln(cmd.ErrOrStderr(), "overrides by call are in the store and not in the file: sluice peek RULE KEY shows the numbers that count in a running server")
			}
			if asJSON {
				e := json.NewEncoder(out)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(describe.NewExplanation(&t, f.Store.Redis != nil))
			}
			_, err = io.WriteString(out, describe.Trace(&t, f.Store.Redis != nil))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.path, "path", "/", "`PATH` as clients send it, with or without a query")
	flags.StringVarP(&q.method, "method", "X", http.MethodGet, "`METHOD`")
	flags.StringVar(&q.host, "host", "localhost", "`HOST` of the request")
	flags.StringVar(&q.clientIP, "client-ip", "127.0.0.1", "`ADDRESS` of the connection, or unix; X-Forwarded-For is read if this is a trusted proxy")
	flags.StringArrayVarP(&q.headers, "header", "H", nil, "`'NAME: VALUE'` of a header; repeatable")
	flags.StringArrayVar(&q.cookies, "cookie", nil, "`NAME=VALUE` of a cookie; repeatable")
	flags.StringArrayVar(&q.queries, "query", nil, "`NAME=VALUE` of a query parameter; repeatable")
	flags.StringArrayVar(&q.attributes, "attribute", nil, "`NAME=VALUE` of an attribute, as callers of the API give it; repeatable")
	flags.StringArrayVar(&q.pressures, "pressure", nil, "`RULE=NUMBER`, the pressure on a rule, such as login=0.9 or login=90%; repeatable")
	flags.StringVar(&q.domain, "domain", "", "`DOMAIN` of a descriptor, instead of a request")
	flags.StringArrayVar(&q.entries, "entry", nil, "`KEY=VALUE` of the descriptor; repeatable, in order")
	flags.BoolVar(&q.marked, "marked", false, "the request is marked")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// exampleRequest is the request that the command line describes.
type exampleRequest struct {
	path, method, host, clientIP string
	headers, cookies, queries    []string
	attributes, pressures        []string
	marked                       bool

	domain  string // of a descriptor
	entries []string
}

// read makes the policy, and the attributes of the request.
func (q *exampleRequest) read(ctx context.Context, f *config.File) (*policy.Policy, *policy.Attributes, error) {
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
	networks, unix := f.Trusted()
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: networks, TrustUnix: unix})
	if err != nil {
		return nil, nil, err
	}
	a := httplimit.Attributes(r, ip)
	for _, err := range [...]error{policy.CheckMethod(a.Method), policy.CheckHost(a.Host)} {
		var bad *policy.AttributeError
		if errors.As(err, &bad) {
			return nil, nil, fmt.Errorf("--%s %s, and the server refuses such requests with status 400; %s", bad.Attribute, bad.Problem, bad.Remedy)
		}
	}
	marks := slices.ContainsFunc(p.MarkHeaders(), func(name string) bool { return len(r.Header[name]) > 0 })
	a.Marked = q.marked || marks && f.TrustMarks && ip.TrustsPeer(r)
	a.TrustPlan = ip.TrustsPeer(r)
	if a.Values, err = q.withAttributes(a.Values); err != nil {
		return nil, nil, err
	}
	return p, &a, nil
}

// explainDescriptor explains the descriptor that the command line describes.
func (q *exampleRequest) explainDescriptor(out io.Writer, f *config.File, asJSON bool) error {
	switch {
	case q.domain == "":
		return errors.New("--entry needs the domain of the descriptor; add --domain DOMAIN")
	case len(q.entries) == 0:
		return errors.New("--domain needs the entries of a descriptor; add --entry KEY=VALUE")
	case asJSON:
		return errors.New("--json explains requests only; leave it out, or leave --domain out")
	}
	var entries []descriptors.Entry
	for _, text := range q.entries {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("--entry is %q; write it as in tenant=acme", text)
		}
		entries = append(entries, descriptors.Entry{Key: key, Value: value})
	}
	p, err := f.Policy()
	if err != nil {
		return err
	}
	t := p.TraceDescriptor(q.domain, entries)
	_, err = io.WriteString(out, describe.Descriptor(q.domain, &t, f.Store.Redis != nil))
	return err
}

// attributed are the named values of an HTTP request, with attributes of other protocols.
type attributed struct {
	policy.RepeatableValues
	policy.ClaimValues
	attributes map[string]string
}

func (a attributed) Attribute(name string) (string, bool) {
	value, ok := a.attributes[name]
	return value, ok
}

func (q *exampleRequest) withAttributes(v policy.Values) (policy.Values, error) {
	a := attributed{attributes: map[string]string{}}
	a.RepeatableValues, _ = v.(policy.RepeatableValues) // HTTP requests can have several values of a name
	a.ClaimValues, _ = v.(policy.ClaimValues)           // HTTP requests have claims
	for _, text := range q.attributes {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--attribute is %q; write it as in protocol=smtp", text)
		}
		a.attributes[name] = value
	}
	return a, nil
}

// unixRemote is what package net/http has for the address of a peer at a Unix socket.
const unixRemote = "@"

// request makes the HTTP request.
func (q *exampleRequest) request(ctx context.Context) (*http.Request, error) {
	switch {
	case !strings.HasPrefix(q.path, "/"):
		return nil, fmt.Errorf("--path is %q; begin it with a slash", q.path)
	case q.method == "":
		return nil, errors.New("--method is empty; give a method such as GET, or leave it out")
	}
	remote := unixRemote
	if q.clientIP != "unix" {
		addr, err := netip.ParseAddr(q.clientIP)
		if err != nil {
			return nil, fmt.Errorf("--client-ip is %q; give an address such as 192.0.2.1, or unix for a peer at a Unix socket", q.clientIP)
		}
		remote = net.JoinHostPort(addr.String(), "1")
	}
	r, err := http.NewRequestWithContext(ctx, q.method, "http://localhost"+q.path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("--path or --method: %w", err)
	}
	r.Host, r.RemoteAddr = q.host, remote
	for _, text := range q.headers {
		name, value, ok := strings.Cut(text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("--header is %q; write it as in 'X-User: ann'", text)
		}
		if strings.EqualFold(name, "Host") {
			return nil, errors.New("--header names the host; give --host instead")
		}
		r.Header.Add(name, value)
	}
	for _, text := range q.cookies {
		name, value, ok := strings.Cut(text, "=")
		cookie := &http.Cookie{Name: name, Value: value}
		if err := cookie.Valid(); !ok || err != nil { // AddCookie would leave out what is not valid
			return nil, fmt.Errorf("--cookie is %q; write it as in session=abc, or give the whole header with --header", text)
		}
		r.AddCookie(cookie)
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

// pressure reads the pressures on rules; nil without flags.
func (q *exampleRequest) pressure(f *config.File) (func(string) float64, error) {
	if len(q.pressures) == 0 {
		return nil, nil //nolint:nilnil // the pressure may be unknown
	}
	known := map[string]bool{}
	for i := range f.Rules {
		known[f.Rules[i].Name] = true
	}
	of := map[string]float64{}
	for _, text := range q.pressures {
		name, number, given := strings.Cut(text, "=")
		ratio, problem, suggestion := reader.ParseRatio(number)
		switch {
		case !given || number == "":
			return nil, fmt.Errorf("--pressure is %q; write it as in login=0.9 or login=90%%", text)
		case problem != "":
			return nil, fmt.Errorf("--pressure is %q, and %s %s; %s", text, number, problem, suggestion)
		case !known[name]:
			return nil, fmt.Errorf("--pressure names %q, which is not a rule; give the name of a rule", name)
		}
		of[name] = float64(ratio)
	}
	return func(rule string) float64 { return of[rule] }, nil
}
