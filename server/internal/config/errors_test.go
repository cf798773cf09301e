package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
)

var update = flag.Bool("update", false, "write the expected outputs again")

// archived is one file of a txtar archive: a text behind a line "-- NAME --". The format is
// txtar (golang.org/x/tools/txtar). This module does not require that one, because only its tests would use it.
type archived struct {
	name string
	data []byte
}

var archivedName = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// readArchive returns what an archive holds before its first file, and the files.
func readArchive(tb testing.TB, path string) (comment []byte, files []archived) {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	heads := archivedName.FindAllSubmatchIndex(data, -1)
	if len(heads) == 0 {
		tb.Fatalf("%s holds no file", path)
	}
	for i, h := range heads {
		end := len(data)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		files = append(files, archived{name: string(data[h[2]:h[3]]), data: data[h[1]:end]})
	}
	return data[:heads[0][0]], files
}

// writeArchive is the inverse of readArchive.
func writeArchive(tb testing.TB, path string, comment []byte, files []archived) {
	tb.Helper()
	b := bytes.NewBuffer(bytes.Clone(comment))
	for _, f := range files {
		fmt.Fprintf(b, "-- %s --\n%s", f.name, f.data)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// faulty returns the archives of files that have mistakes.
func faulty(tb testing.TB) []string {
	tb.Helper()
	archives, err := filepath.Glob("testdata/errors/*.txtar")
	if err != nil || len(archives) < 15 {
		tb.Fatalf("found %d archives: %v", len(archives), err)
	}
	return archives
}

// TestErrorsHaveTheirTexts reads each file of the archives in testdata/errors and compares the error with the
// text behind the file. To write these texts, or the text of a new file, run
// go test -run TestErrorsHaveTheirTexts -update.
func TestErrorsHaveTheirTexts(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range faulty(t) {
		comment, files := readArchive(t, path)
		var written []archived
		for i, file := range files {
			name, ok := strings.CutSuffix(file.name, ".yaml")
			if !ok {
				if i == 0 || strings.TrimSuffix(file.name, ".golden")+".yaml" != files[i-1].name {
					t.Errorf("%s: %s is not behind its file", path, file.name)
				}
				continue
			}
			if seen[name] {
				t.Errorf("%s: there are two cases %s", path, name)
			}
			seen[name] = true
			var want string
			if i+1 < len(files) && files[i+1].name == name+".golden" {
				want = string(files[i+1].data)
			}
			t.Run(name, func(t *testing.T) {
				f, err := parseIn(file.name, file.data, rules.Included{Folder: "testdata/errors"})
				var errs reader.Errors
				if f != nil || !errors.As(err, &errs) {
					t.Fatalf("Parse = %v, %v; want reader.Errors only", f, err)
				}
				got := err.Error() + "\n"
				if *update {
					written = append(written, file, archived{name + ".golden", []byte(got)})
				} else if got != want {
					t.Errorf("got:\n%s\nwant:\n%s", got, want)
				}
			})
		}
		if *update && !t.Failed() {
			writeArchive(t, path, comment, written)
		}
	}
	if len(seen) < 400 {
		t.Errorf("the archives have %d cases", len(seen))
	}
}
