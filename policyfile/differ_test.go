package policyfile

import (
	"reflect"
	"testing"
)

func TestDifferences(t *testing.T) {
	const redis = "store: {redis: {addresses: [127.0.0.1:6379], tls: true}}\n"
	for _, c := range []struct {
		a, b string
		want []string
	}{
		{"", "", nil},
		{"listen: {api: 127.0.0.1:8081}\n", "# the same, in other words\nlisten:\n  api: {address: 127.0.0.1:8081}\n", nil},
		{"listen: {api: 127.0.0.1:8081}\n", "listen: {api: off}\n", []string{"listen.api.address"}},
		{"", "listen: {proxy: {address: 127.0.0.1:8080, tls: {cert: a, key: b}}}\n", []string{"listen.proxy.tls"}},
		{"", redis, []string{"store.redis"}},
		{redis, "store: {redis: {addresses: [127.0.0.1:6380], tls: {ca: x}}}\n", []string{"store.redis.addresses", "store.redis.tls.ca"}},
		{redis, "store: {redis: {addresses: [127.0.0.1:6379]}}\n", []string{"store.redis.tls"}},
		{"trusted_proxies: [10.0.0.0/8]\n", "trusted_proxies: [10.0.0.0/9]\njitter: 1s\n", []string{"trusted_proxies", "jitter"}},
		{"", "rules: [{name: a, key: global, limit: {algorithm: token_bucket, rate: 5/s}}]\n", []string{"rules"}},
	} {
		var files [2]*File
		for i, text := range []string{c.a, c.b} {
			f, err := Parse("x.yaml", []byte("version: 1\n"+text))
			if err != nil {
				t.Fatal(err)
			}
			files[i] = f
		}
		if got := Differences(files[0], files[1]); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q and %q differ in %q, want %q", c.a, c.b, got, c.want)
		}
		if got := Differences(files[1], files[0]); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q and %q, the other way round, differ in %q, want %q", c.b, c.a, got, c.want)
		}
	}
}

// A file that gives all settings differs from one that gives none in all of them.
func TestDifferencesKnowAllSettings(t *testing.T) {
	differ := map[string]bool{}
	for _, name := range []string{"testdata/all.yaml", "testdata/all-rules.yaml"} {
		all, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range Differences(all, Default()) {
			for p := path; p != ""; p = parent(p) {
				differ[p] = true
			}
		}
	}
	for _, name := range accepted(reflect.TypeFor[File]()) {
		if !differ[name] && name != "version" {
			t.Errorf("%s does not differ", name)
		}
	}
}
