package policyfile_test

import (
	"errors"
	"fmt"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
)

func ExampleParse() {
	f, err := policyfile.Parse("sluice.yaml", []byte(`
version: 1
default: deny
rules:
  - name: per-client
    match: {path: /api/**, method: [GET, POST]}
    key: [client_ip]
    limit: {algorithm: token_bucket, rate: 100/m, burst: 20}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := f.Policy()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Rule("per-client").Limits[0])
	// Output:
	// per-client: token_bucket(100/m burst=20)
}

func ExampleParseExpression() {
	writes, err := policyfile.ParseExpression(`method in ["POST", "PUT"] and path startsWith "/api/"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	match := policy.Match{If: []policy.Matcher{writes}}
	for _, method := range []string{"GET", "POST"} {
		fmt.Println(method, match.If[0].Matches(&policy.Attributes{Method: method, Path: "/api/orders"}))
	}
	_, err = policyfile.ParseExpression(`methd == "POST"`)
	fmt.Println(err)
	// Output:
	// GET false
	// POST true
	// policyfile: expression: 1:1: "methd" is unknown; did you mean "method"?
}

func ExampleErrors() {
	_, err := policyfile.Parse("sluice.yaml", []byte(`version: 1
rules:
  - name: login
    match: {paht: /login}
    key: [ip]
    limit: {algorithm: token_bucket, rate: 5/min}
`))
	var errs policyfile.Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			fmt.Println(e)
		}
	}
	// Output:
	// sluice.yaml:4:13: rules[0].match.paht: "paht" is unknown here; did you mean "path"?
	// sluice.yaml:5:11: rules[0].key[0]: "ip" is not a part of a key; did you mean "client_ip"?
	// sluice.yaml:6:44: rules[0].limit.rate: "5/min" needs a period of s, m, h, d or w after the slash; did you mean 5/m?
}
