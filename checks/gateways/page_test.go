package gateways

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPageShowsTheFiles finds what docs/gateways.md shows of files in the files, which the other tests run.
func TestPageShowsTheFiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways.md"))
	if err != nil {
		t.Fatal(err)
	}
	ours, _, _ := strings.Cut(string(page), "\n## Coming from")
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		if !strings.Contains(ours, "(../examples/gateways/"+filepath.Base(name)+")") && filepath.Base(name) != "sluice.yaml" {
			t.Errorf("the page does not name %s", name)
		}
	}
	shown := 0
	for _, m := range regexp.MustCompile("(?s)```(nginx|lua|caddy|yml)\n(.*?)```").FindAllStringSubmatch(ours, -1) {
		for line := range strings.Lines(m[2]) {
			shown++
			if !strings.Contains(all.String(), line) {
				t.Errorf("no file has %q", line)
			}
		}
	}
	if shown < 10 {
		t.Errorf("the page shows %d lines", shown)
	}
}
