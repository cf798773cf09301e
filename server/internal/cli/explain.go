package cli

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/spf13/cobra"
)

func newExplain() *cobra.Command {
	var s settings
	var q question
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Show which rules a request meets, and why it does not meet the others",
		Long: "Show which rules of a configuration file a request would meet, with keys and limits,\n" +
			"and which condition of each other rule fails first. Without FILE, the file is\n" +
			"SLUICE_CONFIG, or else the quick-start policy.\n\n" +
			"No server is needed. What is left of a limit, sluice peek shows.\n\n" +
			"The output contains the values of the request's keys.",
		Example: "  sluice explain sluice.yaml --path /login --method POST --header 'X-User: ann' --client-ip 192.0.2.1",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.setFile(args)
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
				return e.Encode(describe.NewExplanation(&t))
			}
			_, err = io.WriteString(out, describe.Trace(&t))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.path, "path", "/", "`PATH` as clients send it, with or without a query")
	flags.StringVarP(&q.method, "method", "X", http.MethodGet, "`METHOD`")
	flags.StringVar(&q.host, "host", "localhost", "`HOST` of the request")
	flags.StringVar(&q.clientIP, "client-ip", "127.0.0.1", "`ADDRESS` of the connection; X-Forwarded-For is read if this is a trusted proxy")
	flags.StringArrayVarP(&q.headers, "header", "H", nil, "`'NAME: VALUE'` of a header; repeatable")
	flags.StringArrayVar(&q.cookies, "cookie", nil, "`NAME=VALUE` of a cookie; repeatable")
	flags.StringArrayVar(&q.queries, "query", nil, "`NAME=VALUE` of a query parameter; repeatable")
	flags.StringArrayVar(&q.attributes, "attribute", nil, "`NAME=VALUE` of an attribute, as callers of the API give it; repeatable")
	flags.StringArrayVar(&q.pressures, "pressure", nil, "`RULE=NUMBER`, the pressure on a rule, such as login=0.9; repeatable")
	flags.BoolVar(&q.marked, "marked", false, "the request is marked")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
