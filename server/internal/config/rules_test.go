package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/file/expression"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/observe/webhook"
)

// algorithms of limits, in words.
func words(limits []*sluice.Limit) (all []string) {
	for _, l := range limits {
		all = append(all, l.String())
	}
	return all
}

// overridesOf returns all overrides of a rule, with the rows of its table.
func overridesOf(r *policy.Rule) []policy.Override {
	all := slices.Clone(r.Overrides)
	if r.MoreOverrides != nil {
		for o := range r.MoreOverrides {
			o.Key = slices.Clone(o.Key)
			all = append(all, o)
		}
	}
	return all
}

// TestRulesOfAFileBecomeThePolicy compares the rules of a file with the options of its policy.
func TestRulesOfAFileBecomeThePolicy(t *testing.T) {
	f, err := Load("testdata/all-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o, err := f.PolicyOptions()
	if err != nil {
		t.Fatal(err)
	}
	networks := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	no, yes := false, true
	api := &o.Rules[0]
	api.Overrides = overridesOf(api)
	var conditions []string
	for _, c := range api.Match.If {
		conditions = append(conditions, c.(*expression.Expression).String()) //nolint:forcetypeassert // nothing else is one
	}
	api.Match.If = nil
	unless := api.Match.Unless[1].If[0].(*expression.Expression).String() //nolint:forcetypeassert // nothing else is one
	api.Match.Unless[1].If = nil
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"shadow", o.Shadow, true},
		{"classes", o.Classes, []policy.Class{
			{Name: "health", Match: policy.Match{Paths: []string{"/healthz"}, ClientIPs: networks("10.0.0.0/8")}, Bypass: true},
			{Name: "critical", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Plan", OneOf: []string{"enterprise"}}}}},
		}},
		{"match", api.Match, policy.Match{
			Cookies:    []policy.ValueMatch{{Name: "session"}},
			Queries:    []policy.ValueMatch{{Name: "q", OneOf: []string{"a", "b"}}, {Name: "v", Prefixes: []string{"2"}}},
			Attributes: []policy.ValueMatch{{Name: "tenant"}},
			ClientIPs:  networks("192.0.2.0/24", "2001:db8::/32", "198.51.100.0/24"),
			Classes:    []string{"critical"}, Marked: &no, Pressure: 0.9, PressureOf: "plain",
			Unless: []policy.Match{{Paths: []string{"/api/open/**"}, Methods: []string{"GET"}}, {}},
		}},
		{"if", append(conditions, unless), []string{`method == "POST" and header("x-plan") in ["free", "trial"]`, `not in_network("203.0.113.0/24")`, `query("debug") == "1"`}},
		{"key", api.Key, []policy.Part{policy.Claim("sub"), policy.Attribute("tenant"), policy.Template("{client_ip}/{header:X-Tenant}")}},
		{"limits", words(api.Limits), []string{"sliding_log(10/m count_denied=true)", "burst: sliding_log(2/3s min_interval=1s count_denied=true)"}},
		{"candidate", words(api.Candidate), []string{"tighter: sliding_log(5/m count_denied=true)"}},
		{"overrides", len(api.Overrides), 3},
		{"override's key", api.Overrides[0].Key, []string{"ann", "acme", "192.0.2.1", "t"}},
		{"override", words(api.Overrides[0].Limits), []string{"sliding_log(100/m count_denied=true)", "sliding_log(2/3s min_interval=1s count_denied=true)"}},
		{"override of a file", words(api.Overrides[1].Limits), []string{"sliding_log(20/m count_denied=true)", "sliding_log(2/3s min_interval=1s count_denied=true)"}},
		{"override's quoted key", api.Overrides[2].Key, []string{"a,b", "acme", "2001:db8::1", "t"}},
		{"override of the second limit", words(api.Overrides[2].Limits), []string{"sliding_log(10/m count_denied=true)", "sliding_log(4/3s min_interval=500ms count_denied=true)"}},
		{"allowed keys", api.AllowKeys, [][]string{{"ann", "acme", "192.0.2.1", "u"}, {"bob", "acme", "192.0.2.2", "u"}}},
		{"allowed clients", api.AllowIPs, networks("10.1.0.0/16", "10.3.0.0/16", "2001:db8:1::/48")},
		{"denied clients", api.DenyIPs, networks("10.2.0.0/16")},
		{"reserved", api.Reserved, []policy.Reserve{{Share: 20, For: []string{"critical"}}}},
		{"max_wait", api.MaxWait, 2 * time.Second},
		{"queues", []int{api.MaxWaiting, api.MaxWaitingPerKey}, []int{100, 10}},
		{"bandwidth", api.Bandwidth, &policy.Bandwidth{Down: sluice.PerSecond(1_000_000), Up: sluice.PerSecond(65_536)}},
		{"file", api.WhenLimited.File, filepath.Join("testdata", "files", "later.html")},
		{"cost", o.Rules[1].Cost, policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 500, Max: 8000}},
		{"overdraw", o.Rules[1].Overdraw, true},
		{"override of a bucket", words(overridesOf(&o.Rules[1])[0].Limits)[0], "token_bucket(100000/m burst=200000 debt=1 warm_up=1s)"},
		{"reserved units", o.Rules[1].Reserved, []policy.Reserve{{Units: 100, For: []string{"critical"}}}},
		{"degrade", o.Rules[1].WhenLimited, policy.LimitedAction{Action: policy.Degrade, Upstream: "http://127.0.0.1:3001"}},
		{"statuses", o.Rules[2].CountStatus, []policy.StatusRange{{From: 401, To: 401}, {From: 403, To: 403}, {From: 500, To: 599}, {From: 420, To: 429}}},
		{"mark", o.Rules[2].WhenLimited, policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Suspect": "{rule}"}}},
		{"overrides of several limits", words(overridesOf(&o.Rules[3])[0].Limits), []string{
			"concurrency(max=20 queue=5)", "leaky_bucket(5/s queue=10 undelayed=5)",
		}},
		{"cost of models", o.Rules[4].Cost, policy.Cost{Source: policy.CostModel, Estimate: 1024, Model: &policy.ModelCost{
			Format: "openai-chat", Body: 4 << 20, BytesPerToken: 1, Cancel: true, IncludeUsage: true,
			Prices: []policy.ModelPrice{
				{Model: "My-Own", Input: 1, CachedInput: 2, CacheWrite: 3, Output: 4},
				{Model: "gpt-4o-mini*", Input: 150_000, CachedInput: 75_000, Output: 600_000},
				{Model: "*", Input: 15_000_000, Output: 75_000_000},
			},
		}}},
		{"always", o.Rules[5], policy.Rule{Name: "drop", Match: policy.Match{Marked: &yes}, Always: true, WhenLimited: policy.LimitedAction{Action: policy.Deny}}},
		{"status", o.Rules[6].CountStatus, []policy.StatusRange{{From: 400, To: 499}}},
		{"only a bandwidth", o.Rules[7].Bandwidth, &policy.Bandwidth{Down: sluice.PerMinute(10_000_000)}},
		{"descriptor", o.Rules[8], policy.Rule{
			Name: "paths-of-tenants", Key: []policy.Part{{Source: source.Descriptor, Name: "tenant"}}, Limits: o.Rules[8].Limits, WhenLimited: policy.LimitedAction{Action: policy.Deny},
			Match: policy.Match{Descriptor: &descriptors.Pattern{
				Domain: "edge", Label: "per-tenant", Replaces: []string{"per-ip"}, Quota: true, Debit: true, Detailed: true,
				Entries:  []descriptors.PatternEntry{{Key: "tenant"}, {Key: "path", Value: "/api/*", Shared: true, Counted: true}},
				Metadata: map[string]any{"team": "web", "weights": []any{1.0, 2.5}, "nested": map[string]any{"on": true, "none": nil}},
			}},
		}},
		{"period", o.Rules[9].Match.Descriptor.Period, time.Hour},
		{"unlimited", []bool{o.Rules[10].Unlimited, o.Rules[10].Exempt, o.Rules[11].Unlimited, o.Rules[11].Exempt}, []bool{true, false, false, true}},
		{"domains", o.Domains, []string{"edge", "other"}},
		{"scale_out", f.ScaleOut, ScaleOut{Webhook: &webhook.Settings{
			URL: "https://ops.example.com/hooks/scale", SecretFile: "/run/secrets/webhook",
			Above: 0.9, Below: 0.6, For: 30 * time.Second, Every: 10 * time.Minute, Rules: []string{"api", "plain"},
		}}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, c.got, c.want)
		}
	}
	want := []string{"clients.txt", "jobs.csv", "keys.csv", "later.html", "overrides.csv", "prices.csv"}
	for i := range want {
		want[i] = filepath.Join("testdata", "files", want[i])
	}
	if got := f.Files(); !slices.Equal(got, want) {
		t.Errorf("Files = %q", got)
	}
}

// A file that Parse reads can name other files only by absolute paths, because it has no folder.
func TestFilesWithoutFolder(t *testing.T) {
	_, err := Parse("x.yaml", []byte("version: 1\nrules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 5/s}, deny: {client_ip_file: list.txt}}]\n"))
	if err == nil || !strings.Contains(err.Error(), `rules[0].deny.client_ip_file: "list.txt" is a relative path, and there is no folder`) {
		t.Errorf("Parse = %v", err)
	}
}

// Tens of thousands of overrides and networks are read from their files.
func TestManyEntries(t *testing.T) {
	dir := t.TempDir()
	var table, list strings.Builder
	table.WriteString("key,rate,burst\n")
	const n = 50_000
	for i := range n {
		fmt.Fprintf(&table, "tenant-%d,%d/m,%d\n", i, 100+i%7, 10+i%5)
		fmt.Fprintf(&list, "10.%d.%d.%d\n", i>>16, i>>8&255, i&255)
	}
	for name, text := range map[string]string{
		"tenants.csv": table.String(), "clients.txt": list.String(),
		"sluice.yaml": `version: 1
rules:
  - name: api
    key: "header:X-Tenant"
    limit: {algorithm: token_bucket, rate: 10/m}
    overrides: tenants.csv
    deny: {client_ip_file: clients.txt}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Load(filepath.Join(dir, "sluice.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Rule("api"); r.OverrideCount() != n || len(r.DenyIPs) != n {
		t.Errorf("%d overrides, %d networks", r.OverrideCount(), len(r.DenyIPs))
	}
	met := p.LimitsFor(&policy.Attributes{Values: tenant{name: "tenant-49999"}})
	if len(met) != 1 || !met[0].Override || met[0].Request.Limit.Algorithm().String() != "token_bucket(105/m burst=14)" {
		t.Errorf("the last tenant has %+v", met)
	}
	met = p.LimitsFor(&policy.Attributes{Values: tenant{name: "tenant-0"}, ClientIP: netip.MustParseAddr("10.0.195.79")})
	if len(met) != 1 || met[0].Listed != policy.ListDeny {
		t.Errorf("the last client has %+v", met)
	}
}

// tenant is a request with one header.
type tenant struct {
	policy.Values
	name string
}

func (v tenant) Header(string) (string, bool) { return v.name, true }

// BenchmarkReload reads a file whose table of overrides has 100,000 rows, and compiles its policy, as a reload does. A row is
// changed each time.
func BenchmarkReload(b *testing.B) {
	path, table := filepath.Join(b.TempDir(), "sluice.yaml"), new(strings.Builder)
	const n = 100_000
	for i := range n {
		fmt.Fprintf(table, "tenant-%d,%d/m,%d\n", i, 100+i%7, 10+i%5)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write(path, "version: 1\nrules:\n  - name: api\n    key: \"header:X-Tenant\"\n    limit: {algorithm: token_bucket, rate: 10/m}\n    overrides: tenants.csv\n")
	var earlier *policy.Policy
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	for round := 0; b.Loop(); round++ {
		write(filepath.Join(filepath.Dir(path), "tenants.csv"), fmt.Sprintf("key,rate,burst\nchanged,%d/m,\n%s", 1+round, table))
		f, err := Load(path)
		if err != nil {
			b.Fatal(err)
		}
		o, err := f.PolicyOptions()
		if err != nil {
			b.Fatal(err)
		}
		o.Earlier = earlier
		if earlier, err = policy.New(o); err != nil {
			b.Fatal(err)
		}
		if len(earlier.LimitsFor(&policy.Attributes{Values: tenant{name: "tenant-99999"}})) != 1 {
			b.Fatal("the last tenant has no limit")
		}
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/row")
	runtime.KeepAlive(earlier)
}
