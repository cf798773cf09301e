package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehq/sluice/internal/file/reader"

	"github.com/sluicehq/sluice/internal/file/envoy"
	"github.com/sluicehq/sluice/internal/file/rules"
)

// TestManyDescriptors reads as many descriptors as Envoy's own rate limit service takes, and the file that they become.
func TestManyDescriptors(t *testing.T) {
	const descriptors, most = 20_000, 1 << 30 // bytes that are allocated, most of which are free again
	text := "domain: large\ndescriptors:\n" + numbered("  - {key: user, value: name-%d, rate_limit: {unit: minute, requests_per_unit: 5}}\n", descriptors)
	name := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := LoadEnvoy(filepath.Dir(name), envoy.Options{})
	runtime.ReadMemStats(&after)
	if err != nil || len(f.Rules) != descriptors {
		t.Fatalf("the file was not read with all its descriptors: %.500v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > most {
		t.Errorf("%d bytes were allocated", used)
	}
	again, err := Parse("again.yaml", f.YAML())
	if err != nil || len(again.Rules) != descriptors {
		t.Fatalf("what was written was not read with all its rules: %.500v", err)
	}
}

// TestErrorsHaveTheSizeOfLargeFiles checks that errors about large files have their true size.
func TestErrorsHaveTheSizeOfLargeFiles(t *testing.T) {
	const size = reader.MaxFileSize + 12345
	dir := t.TempDir()
	name := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(name, []byte(strings.Repeat("#", size)), 0o600); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("the file has %d bytes; the most is %d", size, reader.MaxFileSize)
	if _, err := Load(name); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Load: %v", err)
	}
	if _, err := LoadEnvoy(dir, envoy.Options{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("LoadEnvoy: %v", err)
	}
	if _, err := Parse("large.yaml", []byte(strings.Repeat("#", size))); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Parse: %v", err)
	}
	// A pipe has no size.
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			_, _ = f.WriteString(strings.Repeat("#", size)) // it ends when the reader closes the pipe
			_ = f.Close()
		}
	}()
	if _, err := Load(pipe); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the file has more than %d bytes", reader.MaxFileSize)) {
		t.Errorf("a pipe: %v", err)
	}
}

// TestLargeCopy checks that a folder whose rules take more room in one file can be kept as a copy all the same.
func TestLargeCopy(t *testing.T) {
	f := Default()
	f.Rules = append(f.Rules, rules.Rule{Name: "r", Key: nil, Always: true, Descriptor: &rules.Descriptor{Domain: "d", Entries: []rules.DescriptorEntry{{Key: "k"}}, Label: strings.Repeat("x", reader.MaxFileSize)}})
	part := f.File
	f.Rules = nil
	f.Attach(reader.New("folder", nil), rules.Included{})
	f.Join(&part)
	kept, err := f.Copy()
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := ParseCopy("kept", kept); err != nil || len(again.Rules) != 1 {
		t.Errorf("the copy was not read with its rule: %.500v", err)
	}
}
