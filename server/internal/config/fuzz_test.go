package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
)

// FuzzParse checks that a file is valid and its policy compiles, or that the error is a reader.Errors in which
// every mistake has a position. Nothing panics.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, path := range faulty(f) {
		_, files := readArchive(f, path)
		for _, file := range files {
			if strings.HasSuffix(file.name, ".yaml") {
				f.Add(file.data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		file, err := Parse("fuzz.yaml", data)
		if err != nil {
			var errs reader.Errors
			if file != nil || !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("Parse = %v, %v", file, err)
			}
			for i, e := range errs {
				if e.Problem == "" || e.Pos.Line < 1 || e.Pos.Column < 1 {
					t.Errorf("error %d has no position: %+v", i, e)
				}
				if i > 0 && (e.Pos.Line < errs[i-1].Pos.Line) {
					t.Errorf("error %d is out of order: %+v", i, e)
				}
			}
			return
		}
		if _, err := file.Policy(); err != nil {
			t.Errorf("a file that is valid makes no policy: %v", err)
		}
		if err := file.Validate(); err != nil {
			t.Errorf("a file that is valid is not: %v", err)
		}
	})
}

// FuzzLists checks that a table, a list of keys and a list of clients make a policy, or reader.Errors with the
// file and a line of it. Nothing panics, and no error shows a key.
func FuzzLists(f *testing.F) {
	files, err := filepath.Glob("testdata/*/lists/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("key,key,1.rate,2.max\na,b,5/s,3\n,,,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 16<<10 {
			return
		}
		file := Default()
		file.Rules = []rules.Rule{{
			Name: "a", Key: []rules.KeyPart{{Part: "header:X-Tenant"}, {Part: "path"}},
			Limits: []rules.Limit{
				{Algorithm: "token_bucket", Rate: sluice.PerSecond(5)},
				{Name: "daily", Algorithm: "concurrency", Max: 5},
			},
			Overrides: rules.Overrides{File: "t"},
			Allow:     &rules.List{KeyFile: "t"},
			Deny:      &rules.List{ClientIPFile: "t"},
		}}
		file.Attach(nil, rules.Included{Files: map[string]rules.IncludedFile{"t": {Path: "t", Data: data}}})
		_, err := file.Policy()
		if err == nil {
			return
		}
		var errs reader.Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("Policy = %v", err)
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, e := range errs {
			if e.Problem == "" || e.Source != "" || e.File == "t" && (e.Pos.Line < 1 || e.Pos.Line > lines || e.Pos.Column < 1) {
				t.Errorf("%+v, of %d lines", e, lines)
			}
		}
	})
}
