package policyfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	fmt.Println(f.Listen.Proxy.Address, p.Rule("per-client").Limits[0])
	// Output:
	// 127.0.0.1:8080 per-client: token_bucket(100/m burst=20)
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

// The files of Envoy's rate limit service become rules, which File.YAML writes as a file of Sluice.
func ExampleLoadEnvoy() {
	dir, err := os.MkdirTemp("", "envoy")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	text := "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 100}\n"
	if err := os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	f, err := policyfile.LoadEnvoy(dir, policyfile.EnvoyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", f.YAML())
	// Output:
	// version: 1
	// domains: [edge]
	//
	// rules:
	//   - name: edge.user
	//     descriptor: {domain: edge, entries: [{key: user}], debit: true}
	//     limit: {algorithm: fixed_window, rate: 100/m}
}
