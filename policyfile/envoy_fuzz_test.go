package policyfile

import (
	"errors"
	"path/filepath"
	"testing"
)

// FuzzEnvoy reads any text as a file of Envoy's rate limit service. What becomes a configuration can be written and read
// again.
func FuzzEnvoy(f *testing.F) {
	archives, err := filepath.Glob("testdata/envoy/*.txtar")
	if err != nil || len(archives) == 0 {
		f.Fatal(err)
	}
	for _, path := range archives {
		_, files := readArchive(f, path)
		for _, file := range files {
			if file.name != "golden" {
				f.Add(file.data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &envoyReader{domains: map[string]string{}, seen: map[string]map[string]bool{}}
		file, err := r.parse("fuzz.yaml", data, "")
		if err != nil {
			var bad Errors
			if !errors.As(err, &bad) || len(bad) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			_ = err.Error()
			return
		}
		file.parts = []*File{file}
		_ = file.Warnings()
		again, err := Parse("again.yaml", file.YAML())
		if err != nil {
			t.Fatalf("%v\n%s", err, file.YAML())
		}
		if d := Differences(file, again); len(d) > 0 {
			t.Fatalf("%v differ:\n%s", d, file.YAML())
		}
	})
}
