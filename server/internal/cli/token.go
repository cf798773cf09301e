package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/sluicehq/sluice/policyfile"
)

// The variables that hold the tokens themselves.
const (
	adminTokenVariable = "SLUICE_ADMIN_TOKEN" //nolint:gosec // the name of a variable
	apiTokenVariable   = "SLUICE_API_TOKEN"   //nolint:gosec // the name of a variable
)

// minToken is the shortest token.
const minToken = 16

// adminToken returns the admin token from the environment, from the file of the flag, or from the configuration.
// It is empty without one.
func adminToken(f *policyfile.Admin, tokenFile string) (string, error) {
	return token("admin", adminTokenVariable, tokenFile, f.Token, f.TokenFile)
}

// apiToken is adminToken for the decision API.
func apiToken(f *policyfile.API, tokenFile string) (string, error) {
	text, err := token("api", apiTokenVariable, tokenFile, f.Token, f.TokenFile)
	if err == nil && text != "" && f.Open {
		err = fmt.Errorf("the file has api.open: true, and %s or a file gives a token; remove one of them", apiTokenVariable)
	}
	return text, err
}

// tokens reads both tokens.
func (s *settings) tokens(f *policyfile.File) (admin, api string, err error) {
	if admin, err = adminToken(&f.Admin, s.adminTokenFile); err != nil {
		return "", "", err
	}
	api, err = apiToken(&f.API, s.apiTokenFile)
	return admin, api, err
}

// tokenFiles returns the files that tokens reads.
func (s *settings) tokenFiles(f *policyfile.File) (files []string) {
	for _, x := range []struct{ variable, flag, file string }{
		{adminTokenVariable, s.adminTokenFile, f.Admin.TokenFile}, {apiTokenVariable, s.apiTokenFile, f.API.TokenFile},
	} {
		if _, set := os.LookupEnv(x.variable); set {
			continue
		}
		if file := cmp.Or(x.flag, x.file); file != "" {
			files = append(files, file)
		}
	}
	return files
}

// token returns the token of a listener. The flag names a file, and the configuration has the text or names a
// file.
func token(name, variable, flag, text, file string) (string, error) {
	given, set := os.LookupEnv(variable)
	where := name + ".token"
	switch {
	case set && flag != "":
		return "", fmt.Errorf("the %s token is given twice, by %s and as a file; give one of them", name, variable)
	case set:
		text, where = given, variable
	case flag != "" || file != "":
		if where = flag; where == "" {
			where = file
		}
		data, err := os.ReadFile(where)
		if err != nil {
			return "", fmt.Errorf("the %s token: %w", name, err)
		}
		text = string(data)
	case text == "":
		return "", nil
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", fmt.Errorf("the %s token in %s is empty; put one there, or leave it out", name, where)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("the %s token in %s has characters that a header cannot carry; use letters, digits and punctuation", name, where)
	case len(text) < minToken:
		return "", fmt.Errorf("the %s token in %s has %d characters; give %d or more, such as from: openssl rand -hex 16", name, where, len(text), minToken)
	}
	return text, nil
}
