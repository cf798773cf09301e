package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A copy has the settings of the file, and of the files that it names, even when these are gone.
func TestCopiesOutliveTheirFiles(t *testing.T) {
	dir := t.TempDir()
	text := "version: 1\nrules: [{name: a, key: client_ip, allow: {client_ip_file: office.txt}, limit: {algorithm: token_bucket, rate: 5/s}}]\n"
	for name, content := range map[string]string{"sluice.yaml": text, "office.txt": "192.0.2.0/24\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Load(filepath.Join(dir, "sluice.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := f.Copy()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	got, saved, err := ParseCopy("copy", copied)
	if err != nil {
		t.Fatal(err)
	}
	if d := Differences(f, got); len(d) > 0 || saved.IsZero() {
		t.Errorf("the copy of %v differs in %v", saved, d)
	}
	if got.Files()[0] != f.Files()[0] {
		t.Errorf("the copy names %v, the file %v", got.Files(), f.Files())
	}
	p, err := got.Policy()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Rules()[0].AllowIPs); n != 1 {
		t.Errorf("the list of the copy has %d networks", n)
	}
	again, err := got.Copy()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ParseCopy("copy", again); err != nil {
		t.Errorf("the copy of a copy: %v", err)
	}

	for change, want := range map[string]string{
		"":                             "is not a copy",
		"{}":                           "is not a copy",
		text:                           "is not a copy",
		string(copied[:len(copied)-3]): "cut off",
		strings.Replace(string(copied), "configuration-1", "configuration-2", 1): "start the program that made it",
		strings.Replace(string(copied), `"name":"`, `"name":"/elsewhere`, 1):     "changed since",
	} {
		if _, _, err := ParseCopy("copy", []byte(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q gives %v, want %q", change, err, want)
		}
	}
	if _, err := Default().Copy(); err == nil {
		t.Error("a File that a program made has a copy")
	}
}
