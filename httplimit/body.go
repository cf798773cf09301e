package httplimit

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/policy"
)

// expand fills in {wait}, in seconds, and {rule}. All else in braces stays: bodies are
// often JSON.
func expand(text string, wait int64, rule string) string {
	if strings.IndexByte(text, '{') < 0 {
		return text
	}
	return strings.NewReplacer("{wait}", strconv.FormatInt(wait, 10), "{rule}", rule).Replace(text)
}

// maxFile bounds the file of an answer, which is read for each one.
const maxFile = 1 << 20

// readFile returns the contents of an answer's file.
func readFile(name string) ([]byte, error) {
	// Nothing is opened that could keep whoever opens it waiting, as a pipe does.
	switch info, err := os.Stat(name); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
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

// fileOf returns the contents of the file of a rule's answer.
func fileOf(r *policy.LimitedAction, rule string) ([]byte, error) {
	content, err := readFile(r.File)
	if err != nil {
		return nil, fmt.Errorf("httplimit: rule %q: WhenLimited.File: %w", rule, err)
	}
	return content, nil
}

// body returns the body of a rule's answer and its type, both empty if the rule has none.
func body(r *policy.LimitedAction, wait int64, rule string) (content []byte, contentType string, err error) {
	contentType = r.ContentType
	switch {
	case r.File != "":
		if content, err = fileOf(r, rule); err != nil {
			return nil, "", err
		}
		if contentType == "" {
			contentType = mime.TypeByExtension(filepath.Ext(r.File))
		}
		content = []byte(expand(string(content), wait, rule))
	case r.Body != "":
		content = []byte(expand(r.Body, wait, rule))
	default:
		return nil, "", nil
	}
	if contentType == "" {
		contentType = "text/plain; charset=utf-8"
	}
	return content, contentType, nil
}

// setHeader sets the headers of a rule's answer.
func setHeader(h http.Header, r *policy.LimitedAction, wait int64, rule string) {
	for name, value := range r.Header {
		h.Set(name, expand(value, wait, rule))
	}
}

// CheckFiles reports which files of answers cannot be read that the rules of a policy name. NewPolicyDecider
// asks for it; ask before PolicyDecider.SetPolicy.
func CheckFiles(p *policy.Policy) error {
	for _, r := range p.Rules() {
		if r.WhenLimited.File == "" {
			continue
		}
		if _, err := fileOf(&r.WhenLimited, r.Name); err != nil {
			return err
		}
	}
	return nil
}

// waitOf returns the wait that an answer tells, in seconds: that of Retry-After if it is set.
func waitOf(h http.Header, wait time.Duration) int64 {
	if told, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil {
		return told
	}
	return seconds(wait)
}
