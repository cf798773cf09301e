package secret

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// leastSecret is the shortest secret for what nobody may guess.
const leastSecret = 16

// Read reads a secret from a file or a variable. Without either it is empty.
func Read(setting, file, variable string) (string, error) {
	var text string
	switch {
	case file != "":
		data, err := ReadFile(file)
		if err != nil {
			return "", Mistake(setting+"_file", err.Error(), "give the path of a file that holds the secret, and that this program may read")
		}
		text = strings.TrimSpace(string(data))
		if text == "" {
			return "", Mistake(setting+"_file", file+" is empty", "put the secret there")
		}
	case variable != "":
		text = strings.TrimSpace(os.Getenv(variable))
		if text == "" {
			return "", Mistake(setting+"_env", variable+" is not set in the environment, or empty", "put the secret there")
		}
	}
	return text, nil
}

// ReadLong is Read for one that nobody may guess by trying out all.
func ReadLong(setting, file, variable string) (string, error) {
	text, err := Read(setting, file, variable)
	if err != nil || file == "" && variable == "" || len(text) >= leastSecret {
		return text, err
	}
	if setting += "_env"; file != "" {
		setting = strings.TrimSuffix(setting, "_env") + "_file"
	}
	return "", Mistake(setting, fmt.Sprintf("the secret has %d bytes, which can be guessed", len(text)),
		fmt.Sprintf("give %d random bytes or more, such as from: openssl rand -hex 16", leastSecret))
}

// ReadFile reads a file of a certificate, a token or a secret. A pipe is an error: its open may never end, and the server
// reads such files several times.
func ReadFile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, errors.New(path + " is not a regular file")
	}
	return os.ReadFile(path)
}

// Mistake returns a mistake in a setting that a file or a variable causes.
func Mistake(setting, problem, remedy string) error {
	return &reader.Error{Path: setting, Problem: problem, Suggestion: remedy}
}
