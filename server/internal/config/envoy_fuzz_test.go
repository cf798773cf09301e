package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/internal/file/envoy"
	"github.com/sluicehq/sluice/internal/file/reader"
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
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "fuzz.yaml"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := LoadEnvoy(folder, envoy.Options{})
		if err != nil {
			var bad reader.Errors
			if !errors.As(err, &bad) || len(bad) == 0 {
				t.Fatalf("want mistakes with positions, got %T: %v", err, err)
			}
			_ = err.Error()
			return
		}
		_ = file.Warnings()
		again, err := Parse("again.yaml", file.YAML())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, file.YAML())
		}
		if d := Differences(file, again); len(d) > 0 {
			t.Fatalf("%v differ:\n%s", d, file.YAML())
		}
	})
}
