package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Import sends a large table in calls that a server takes: up to 1,000 overrides, in less than 1 MiB. Each line is sent once, in order. An
// error names the line, and says which lines are set.
func TestImportsFitIntoCalls(t *testing.T) {
	const most = 1 << 20 // http.max_body_size
	var calls []int
	var keys []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Overrides []struct{ Key []string }
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&q); err != nil {
			t.Errorf("call %d cannot be read: %v", len(calls), err)
		}
		if calls = append(calls, len(q.Overrides)); len(q.Overrides) > 1000 {
			t.Errorf("call %d has %d overrides", len(calls), len(q.Overrides))
		}
		for _, o := range q.Overrides {
			if keys = append(keys, o.Key...); o.Key[0] == "k2500" {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"detail": "overrides[%d]: \"limit.rate\" is wrong."}`, len(q.Overrides)-1)
				return
			}
		}
		fmt.Fprint(w, `{"overrides": []}`)
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "t.csv")
	run := func(rows int, note string) (string, error) {
		text := []byte("key,rate,note\n")
		for i := range rows {
			text = fmt.Appendf(text, "k%d,5/m,%s\n", i, note)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		calls, keys = nil, nil
		var out strings.Builder
		root := Root()
		root.SetArgs([]string{"override", "import", "tenants", file, "--server", s.URL})
		root.SetOut(&out)
		err := root.ExecuteContext(t.Context())
		for i, key := range keys {
			if key != fmt.Sprint("k", i) {
				t.Fatalf("override %d is of %s", i, key)
			}
		}
		return out.String(), err
	}
	if out, err := run(2400, ""); err != nil || len(calls) != 3 || len(keys) != 2400 || out != "set for tenants: 2400 overrides\n" {
		t.Errorf("2,400 short rows are sent in calls of %v: %q, %v; want 3 calls", calls, out, err)
	}
	if out, err := run(2400, strings.Repeat("€", 170)); err != nil || len(calls) < 3 || len(keys) != 2400 {
		t.Errorf("2,400 rows with notes are sent in calls of %v: %q, %v; want all", calls, out, err)
	}
	_, err := run(2501, "")
	if want := file + `: the server answers 400: line 2502: "limit.rate" is wrong; the lines before line 2002 are set`; err == nil || err.Error() != want {
		t.Errorf("the error of a wrong row is %v, want %s", err, want)
	}
}

// A text that no call can have is an error, not the key of somebody else.
func TestKeysOutsideUTF8AreErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "latin.csv")
	if err := os.WriteFile(file, []byte("key,rate\nM\xfcller,5/m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"override", "import", "tenants", file},
		{"override", "set", "tenants", "M\xfcller", "--rate", "5/m"},
		{"override", "unset", "tenants", "M\xfcller"},
		{"grant", "tenants", "M\xfcller", "5"},
		{"grant", "tenants", "M\xfcller", "--unset"},
		{"peek", "tenants", "M\xfcller"},
		{"ban", "tenants", "M\xfcller", "--for", "1h"},
	} {
		called := false
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
		root := Root()
		root.SetArgs(append(args, "--server", s.URL))
		root.SetOut(io.Discard)
		err := root.ExecuteContext(t.Context())
		s.Close()
		if err == nil || !strings.Contains(err.Error(), `"M\xfcller" is not UTF-8`) || called {
			t.Errorf("%q gives the error %v, and calls the server: %v; want an error about the text, and no call", args[:3], err, called)
		}
	}
}

// A table has one number of columns. A key from before a change of the parts does not fit into it.
func TestExportsNameKeysOfOtherParts(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"overrides": [{"rule": "tenants", "key": ["acme"], "deny": true}, {"rule": "tenants", "key": ["acme", "bob"], "deny": true}]}`)
	}))
	defer s.Close()
	root := Root()
	root.SetArgs([]string{"override", "export", "tenants", "--server", s.URL})
	root.SetOut(io.Discard)
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "acme bob has 2 parts") || !strings.Contains(err.Error(), "not in force") {
		t.Errorf("an export of keys with one and two parts ends with %v; want an error that names the key", err)
	}
}

// A table cannot hold a key that its reader would change.
func TestExportsRefuseKeysThatTablesChange(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"overrides": [{"rule": "tenants", "key": ["a\r\nb"], "limit": {"rate": "5/m"}}]}`)
	}))
	defer s.Close()
	root := Root()
	root.SetArgs([]string{"override", "export", "tenants", "--server", s.URL})
	root.SetOut(io.Discard)
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), `the key "a\r\nb" has a line break`) {
		t.Errorf("the export ends with the error %v; want one that names the key", err)
	}
}
