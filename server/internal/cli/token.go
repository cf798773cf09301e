package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/sluicehq/sluice/policyfile"
)

// tokenVariable holds the admin token itself.
const tokenVariable = "SLUICE_ADMIN_TOKEN" //nolint:gosec // the name of a variable

// minToken is the shortest admin token.
const minToken = 16

// adminToken returns the admin token from the environment, from the file of the flag, or from the configuration.
// It is empty without one.
func adminToken(f *policyfile.Admin, tokenFile string) (string, error) {
	text, given := os.LookupEnv(tokenVariable)
	where := tokenVariable
	switch {
	case given && tokenFile != "":
		return "", fmt.Errorf("the admin token is given twice, by %s and as a file; give one of them", tokenVariable)
	case given:
	case tokenFile != "" || f.TokenFile != "":
		where = tokenFile
		if where == "" {
			where = f.TokenFile
		}
		data, err := os.ReadFile(where)
		if err != nil {
			return "", fmt.Errorf("the admin token: %w", err)
		}
		text = string(data)
	case f.Token != "":
		text, where = f.Token, "admin.token"
	default:
		return "", nil
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", fmt.Errorf("the admin token in %s is empty; put one there, or leave it out", where)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("the admin token in %s has characters that a header cannot carry; use letters, digits and punctuation", where)
	case len(text) < minToken:
		return "", fmt.Errorf("the admin token in %s has %d characters; give %d or more, such as from: openssl rand -hex 16", where, len(text), minToken)
	}
	return text, nil
}
