package denial

import (
	"fmt"
	"io"
	"os"

	"github.com/sluicehq/sluice/policy"
)

// maxFile bounds the file of an answer, in bytes. The file is read for each answer.
const maxFile = 1 << 20

// readFile returns the contents of an answer's file.
func readFile(name string) ([]byte, error) {
	// Only a regular file is opened: a pipe could block.
	switch info, err := os.Stat(name); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes; give a file of at most %d", name, info.Size(), maxFile)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// File returns the contents of the file of a rule's answer.
func File(r *policy.LimitedAction, rule string) ([]byte, error) {
	content, err := readFile(r.File)
	if err != nil {
		return nil, fmt.Errorf("httplimit: rule %q: WhenLimited.File: %w", rule, err)
	}
	return content, nil
}

// CheckFiles returns an error if a rule of a policy names a file for its answer that cannot be read.
func CheckFiles(p *policy.Policy) error {
	for _, r := range p.Rules() {
		if r.WhenLimited.File == "" {
			continue
		}
		if _, err := File(&r.WhenLimited, r.Name); err != nil {
			return err
		}
	}
	return nil
}
