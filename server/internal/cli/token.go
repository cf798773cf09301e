package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// The variables that hold the tokens themselves.
const (
	adminTokenVariable = "SLUICE_ADMIN_TOKEN" //nolint:gosec // the name of a variable
	apiTokenVariable   = "SLUICE_API_TOKEN"   //nolint:gosec // the name of a variable
	readTokenVariable  = "SLUICE_READ_TOKEN"  //nolint:gosec // the name of a variable
)

// minToken is the shortest token.
const minToken = 16

// adminToken returns the admin token from the environment, from the file of the flag, or from the configuration.
// It is empty without one.
func adminToken(f *access.Admin, tokenFile string) (string, error) {
	return token("admin.token", "the admin token", adminTokenVariable, tokenFile, f.Token, f.TokenFile)
}

// apiToken is adminToken for the decision API.
func apiToken(f *access.API, tokenFile string) (string, error) {
	text, err := token("api.token", "the api token", apiTokenVariable, tokenFile, f.Token, f.TokenFile)
	if err == nil && text != "" && f.Open {
		err = &reader.Error{Path: "api.open", Problem: "is true, and " + apiTokenVariable + " or a file gives a token", Suggestion: "remove one of them"}
	}
	return text, err
}

// readToken is adminToken for the token that only reads.
func readToken(f *access.API, tokenFile string) (string, error) {
	return token("api.read_token", "the read token", readTokenVariable, tokenFile, f.ReadToken, f.ReadTokenFile)
}

// tokens reads all tokens.
func (s *settings) tokens(f *config.File) (access.Secrets, error) {
	admin, err1 := adminToken(&f.Admin, s.adminTokenFile)
	api, err2 := apiToken(&f.API, s.apiTokenFile)
	read, err3 := readToken(&f.API, s.readTokenFile)
	return access.Secrets{Admin: admin, API: api, Read: read}, errors.Join(err1, err2, err3)
}

// tokenFiles returns the files that tokens reads.
func (s *settings) tokenFiles(f *config.File) (files []string) {
	for _, x := range []struct{ variable, flag, file string }{
		{adminTokenVariable, s.adminTokenFile, f.Admin.TokenFile},
		{apiTokenVariable, s.apiTokenFile, f.API.TokenFile},
		{readTokenVariable, s.readTokenFile, f.API.ReadTokenFile},
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

// token returns the token of a setting. The flag names a file, and the configuration has the text or names a
// file. An error names the setting, the flag or the variable.
func token(where, what, variable, flag, text, file string) (string, error) {
	given, set := os.LookupEnv(variable)
	flagName := "--" + strings.ReplaceAll(strings.TrimPrefix(what, "the "), " ", "-") + "-file"
	bad := func(problem, remedy string) (string, error) {
		return "", &reader.Error{Path: where, Problem: problem, Suggestion: remedy}
	}
	switch {
	case set && flag != "":
		where = variable
		return bad("gives "+what+", and "+flagName+" does too", "give one of them")
	case set:
		text, where = given, variable
	case flag != "" || file != "":
		if where += "_file"; flag != "" {
			where = flagName
		}
		data, err := secret.ReadFile(cmp.Or(flag, file))
		if err != nil {
			return bad(err.Error(), "give the path of a file that holds the token, and that this program may read")
		}
		text, what = string(data), what+" in "+cmp.Or(flag, file)
	case text == "":
		return "", nil
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return bad(what+" is empty", "put one there, or leave it out")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return bad(what+" has characters that a header cannot carry", "use letters, digits and punctuation")
	case len(text) < minToken:
		return bad(fmt.Sprintf("%s has %d characters, which can be guessed", what, len(text)), fmt.Sprintf("give %d or more, such as from: openssl rand -hex 16", minToken))
	}
	return text, nil
}
