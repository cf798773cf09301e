package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A mutation breaks one promise.
type mutation struct {
	promise string // of the documentation, in short
	file    string // from the top folder
	old     string // occurs in the file once
	new     string
	test    string // must fail, as "folder Test"
}

func (m mutation) String() string { return fmt.Sprintf("%q, in %s, by %s", m.promise, m.file, m.test) }

// mutations returns all mutations.
func mutations() []mutation {
	return slices.Concat(ofStores, ofServers, ofRequests)
}

// apply returns the changed text of the file.
func (m mutation) apply(top string) (string, error) {
	text, err := os.ReadFile(filepath.Join(top, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s has the old text %d times, want once: change the mutation so that it breaks the promise again", m.file, n)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}

// patience is how long a test may take, with compiling.
const patience = 3 * time.Minute

// try runs the test over the changed code. A nil error means that the test failed, as it must.
func (m mutation) try(top string) error {
	text, err := m.apply(top)
	if err != nil {
		return err
	}
	top, err = filepath.Abs(top)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	changed, overlay := filepath.Join(dir, "changed"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(top, m.file): changed}})
	if err == nil {
		err = errors.Join(os.WriteFile(changed, []byte(text), 0o600), os.WriteFile(overlay, replace, 0o600))
	}
	if err != nil {
		return err
	}
	folder, test, _ := strings.Cut(m.test, " ")
	cmd := exec.Command("go", "test", "-json", "-count", "1", "-vet=off", "-timeout", patience.String(), "-run", "^"+test+"$", ".")
	cmd.Dir = filepath.Join(top, folder)
	// Tests that build the server must build it with the change too.
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay), "RAPID_NOFAILFILE=true")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return verdict(test, out.Bytes(), errs.String(), err)
}

// verdict returns an error, unless the events of `go test` say that the test failed, or that it never ended.
func verdict(test string, events []byte, errs string, run error) error {
	began, passed := false, false
	for line := range bytes.Lines(events) {
		var e struct{ Action, Test string }
		if json.Unmarshal(line, &e) != nil || e.Test != test {
			continue
		}
		if e.Action == "fail" {
			return nil
		}
		began, passed = true, passed || e.Action == "pass" || e.Action == "skip"
	}
	switch {
	case run != nil && began && !passed:
		return nil
	case run == nil && began:
		return errors.New("the test passes although the promise is broken")
	case run == nil:
		return errors.New("there is no such test")
	}
	return fmt.Errorf("the test did not run: %w\n%s%s", run, errs, events)
}
