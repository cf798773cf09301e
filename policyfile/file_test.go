package policyfile_test

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/policyfile"
)

// A program reads the rules of a server's file, and hears of the settings that it did not read.
func TestServerFile(t *testing.T) {
	f, err := policyfile.Parse("sluice.yaml", []byte(`version: 1
listen: {proxy: nonsense}
store: {redis: {}}
rules: [{name: all, key: client_ip, hybrid: true, on_store_error: local, limit: {algorithm: token_bucket, rate: 1000/s}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil || len(p.Rules()) != 1 {
		t.Fatalf("want a policy with one rule, got %v, %v", p, err)
	}
	var got []string
	for _, w := range f.Warnings() {
		got = append(got, w.Error())
	}
	const end = "is a setting of the server, and was not read; remove it, or run the file with sluice serve"
	if want := "sluice.yaml:2:1: listen: " + end + "\nsluice.yaml:3:1: store: " + end; strings.Join(got, "\n") != want {
		t.Errorf("the warnings are\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if _, err := policyfile.Parse("sluice.yaml", []byte("version: 1\nlisten_on: here\n")); err == nil {
		t.Error("an unknown setting is accepted")
	}
}
