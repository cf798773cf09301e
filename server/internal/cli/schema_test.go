package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/sluicehq/sluice/policyfile"
	"go.yaml.in/yaml/v3"
)

// configurations compiles the schema.
func configurations(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(policyfile.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read reads YAML as an editor does, with a parser of its own.
func read(text []byte) (value any, err error) {
	err = yaml.Unmarshal(text, &value)
	return value, err
}

// TestSchemaTakesWhatIsValid: every configuration that this repository shows.
func TestSchemaTakesWhatIsValid(t *testing.T) {
	s := configurations(t)
	all := map[string][]byte{}
	for _, pattern := range []string{"../config/testdata/*.yaml", "../../../examples/*.yaml", "../../../examples/*/*.yaml", "../app/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if regexp.MustCompile(`(?m)^version:`).Match(text) {
				all[name] = text
			}
		}
	}
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
			if bytes.HasPrefix(block[1], []byte("version:")) {
				all[name+": "+string(block[1][:min(len(block[1]), 60)])] = block[1]
			}
		}
	}
	if len(all) < 15 {
		t.Fatalf("found %d configurations", len(all))
	}
	for name, text := range all {
		value, err := read(text)
		if err != nil {
			t.Errorf("%s cannot be read: %v", name, err)
			continue
		}
		if err := s.Validate(value); err != nil {
			t.Errorf("the schema refuses %s: %v", name, err)
		}
	}
}

// structural finds the mistakes that are of the form of a file, in what policyfile says of them.
var structural = regexp.MustCompile(`(?m)^\S+\.yaml:\S+ .*(is unknown here|" is unknown(;|$)|, and (a text|a list.*|a mapping.*|a whole number|true or false) is wanted|has no value|is an empty list|is not a (duration|size|rate|share|ratio|status)|has no unit|needs a period)`)

// whole finds a number that a schema calls whole, as 1.0, and the reader of files does not.
var whole = regexp.MustCompile(`is \d+\.0+, and a whole number is wanted`)

// ofForm reports whether one of the mistakes is. Expressions have a form of their own.
func ofForm(said string) bool {
	for line := range strings.Lines(said) {
		if structural.MatchString(line) && !strings.Contains(line, ".if[") && !whole.MatchString(line) {
			return true
		}
	}
	return false
}

// TestSchemaRefusesMistakesOfForm: every file of policyfile's tests that has one.
func TestSchemaRefusesMistakesOfForm(t *testing.T) {
	s := configurations(t)
	archives, err := filepath.Glob("../config/testdata/errors/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var files []txtar.File // a file and the errors about it, by turns
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, archive.Files...)
	}
	refused, passed := 0, 0
	for i := 0; i+1 < len(files); i += 2 {
		value, err := read(files[i].Data)
		if err != nil {
			continue // editors do not read it either
		}
		said := string(files[i+1].Data)
		switch err := s.Validate(value); {
		case err != nil:
			refused++
		case ofForm(said):
			t.Errorf("the schema accepts %s, but\n%s", files[i].Name, said)
		default:
			passed++
		}
	}
	if refused < 100 {
		t.Errorf("the schema refuses %d files of %d", refused, len(files)/2)
	}
	t.Logf("of %d files with mistakes the schema refuses %d; what is wrong with %d others takes more than a schema", len(files)/2, refused, passed)
}
