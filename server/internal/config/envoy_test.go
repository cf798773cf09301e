package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/file/reader"

	"github.com/sluicehq/sluice/internal/file/envoy"
	"github.com/sluicehq/sluice/internal/file/rules"
)

// loadEnvoy writes files into a folder, and reads them as Envoy's users have them.
func loadEnvoy(t *testing.T, files []archived, o envoy.Options) (*File, error) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return LoadEnvoy(".", o)
}

// TestEnvoyFiles reads the files of each archive in testdata/envoy, and compares what they become with the last file of
// the archive: rules and warnings, or mistakes. To write these files, run go test -run TestEnvoyFiles -update.
func TestEnvoyFiles(t *testing.T) {
	archives, err := filepath.Glob("testdata/envoy/*.txtar")
	if err != nil || len(archives) < 20 {
		t.Fatalf("found %d archives: %v", len(archives), err)
	}
	for _, path := range archives {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			comment, files := readArchive(t, path)
			want := ""
			if last := files[len(files)-1]; last.name == "golden" {
				want, files = string(last.data), files[:len(files)-1]
			}
			f, err := loadEnvoy(t, files, envoy.Options{MergeDomains: strings.Contains(string(comment), "MERGE_DOMAIN_CONFIG"), Quota: strings.Contains(string(comment), "QUOTA_MODE")})
			got := ""
			if err != nil {
				got = err.Error() + "\n"
			} else {
				for _, w := range f.Warnings() {
					if w.File != "." { // of the server
						got += "warning: " + w.Error() + "\n"
					}
				}
				got += string(f.YAML())
				checkWritten(t, f)
			}
			if *update {
				writeArchive(t, path, comment, append(files, archived{"golden", []byte(got)}))
			} else if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// checkWritten reads what YAML has written, and compares it with the file.
func checkWritten(t *testing.T, f *File) {
	t.Helper()
	text := f.YAML()
	again, err := parseIn("again.yaml", text, rules.Included{Folder: f.Included().Folder})
	if err != nil {
		t.Errorf("what was written cannot be read: %v\n%s", err, text)
		return
	}
	if d := Differences(f, again); len(d) > 0 {
		t.Errorf("%v differ in\n%s\n%+v\n%+v", d, text, f.Rules, again.Rules)
	}
	a, errA := f.PolicyOptions()
	b, errB := again.PolicyOptions()
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) { //nolint:govet // options hold no errors but in functions
		t.Errorf("other rules: %v, %v", errA, errB)
	}
}

// A folder of Envoy's files is read as Kubernetes mounts it, and an empty one is an error.
func TestEnvoyFolders(t *testing.T) {
	if _, err := LoadEnvoy(filepath.Join(t.TempDir(), "none"), envoy.Options{}); err == nil {
		t.Error("a folder that is not there has a configuration")
	}
	if _, err := LoadEnvoy(t.TempDir(), envoy.Options{}); err == nil || !strings.Contains(err.Error(), "no file whose name ends in .yaml") {
		t.Error(err)
	}
	// As Kubernetes mounts a folder.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "..2026"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..2026", "a.yaml"), []byte("domain: a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"..data": "..2026", "a.yaml": "..data/a.yaml"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "b.conf")
	if err := os.WriteFile(other, []byte("domain: b"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := LoadEnvoy(dir, envoy.Options{})
	if err != nil || len(f.Domains) != 1 || len(f.Rules) != 0 {
		t.Errorf("want only the one domain, got %+v, %v", f, err)
	}
	if text := f.Warnings().Error(); !strings.Contains(text, "1 file ignored") || !strings.Contains(text, reader.Shorten(other)) {
		t.Errorf("the warnings do not name the file that is not read: %s", text)
	}
}
