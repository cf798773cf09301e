package policyfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse: a file is valid, and then its policy compiles, or it is Errors that
// all have their place. Nothing panics.
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
			var errs Errors
			if file != nil || !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("Parse = %v, %v", file, err)
			}
			for i, e := range errs {
				if e.Problem == "" || e.Pos.Line < 1 || e.Pos.Column < 1 {
					t.Errorf("error %d has no place: %+v", i, e)
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
