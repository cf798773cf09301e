package config

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"

	"github.com/sluicehq/sluice/internal/file/envoy"
)

// vocabulary returns values for the entries of a file's rules, among them values that match stars.
func vocabulary(f *File) (domains []string, entries []descriptors.Entry) {
	domains = append(domains, f.Domains...)
	for i := range f.Rules {
		for _, e := range f.Rules[i].Descriptor.Entries {
			for _, value := range []string{e.Value, "x", "/img/a", "/img/b", "/apiXv1Ylist", "a.css", ""} {
				entries = append(entries, descriptors.Entry{Key: e.Key, Value: value})
			}
		}
	}
	return append(domains, "unknown"), entries
}

// TestEnvoyImportDecidesTheSame sends the same calls to the rules of Envoy's files, and to the rules of the file that
// was made from them.
func TestEnvoyImportDecidesTheSame(t *testing.T) {
	archives, err := filepath.Glob("testdata/envoy/good-*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(err)
	}
	for _, path := range archives {
		_, files := readArchive(t, path)
		t.Run(filepath.Base(path), func(t *testing.T) {
			from, err := loadEnvoy(t, files[:len(files)-1], envoy.Options{MergeDomains: true})
			if err != nil {
				t.Fatal(err)
			}
			kept, err := from.Copy()
			if err != nil {
				t.Fatal(err)
			}
			to, _, err := ParseCopy("kept", kept)
			if err != nil {
				t.Fatal(err)
			}
			now := int64(1_800_000_000_000_000)
			var deciders [2]*policy.Decider
			for i, f := range []*File{from, to} {
				p, err := f.Policy()
				if err != nil {
					t.Fatal(err)
				}
				store, err := memory.New(memory.Options{Clock: func() int64 { return now }})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = store.Close() })
				if deciders[i], err = policy.NewDecider(p, store); err != nil {
					t.Fatal(err)
				}
			}
			rng := rand.New(rand.NewPCG(1, 1))
			domains, words := vocabulary(from)
			outcomes := map[bool]int{}
			for range 2000 {
				now += rng.Int64N(200_000)
				domain, q := domains[rng.IntN(len(domains))], make([]descriptors.Request, 1+rng.IntN(3))
				for i := range q {
					q[i] = randomDescriptor(rng, words)
				}
				a, b := deciders[0].DecideDescriptors(t.Context(), domain, q), deciders[1].DecideDescriptors(t.Context(), domain, q)
				if x, y := described(&a), described(&b); x != y {
					t.Fatalf("domain %s decides differently about %+v:\n%s\n%s", domain, q, x, y)
				}
				outcomes[a.Allowed()]++
			}
			if outcomes[true] == 0 {
				t.Error("no call passed")
			}
		})
	}
}

// randomDescriptor returns a descriptor of some entries at random.
func randomDescriptor(rng *rand.Rand, words []descriptors.Entry) descriptors.Request {
	q := descriptors.Request{Cost: rng.Int64N(5), Look: rng.IntN(10) == 0, Refund: rng.IntN(10) == 0}
	for range 1 + rng.IntN(3) {
		if len(words) > 0 {
			q.Entries = append(q.Entries, words[rng.IntN(len(words))])
		}
	}
	if rng.IntN(10) == 0 {
		rate := sluice.PerMinute(rng.Int64N(3))
		q.Limit = &rate
	}
	return q
}

// described returns what was decided about a call.
func described(v *policy.DescriptorVerdict) string {
	text := v.String()
	for i := range v.Descriptors {
		d := &v.Descriptors[i]
		name := ""
		if d.Rule != nil {
			name = d.Rule.Name + " " + d.Rule.Match.Descriptor.Label
		}
		text += fmt.Sprintf("\n%s: %v %v %v %v %v, %d left, %v, %v", name, d.Allowed, d.Over, d.Unlimited, d.Replaced, d.Rate, d.Remaining(), d.Reset(), d.Err)
	}
	return text
}
