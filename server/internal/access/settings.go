package access

import (
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Admin protects the calls that change state. Give token_file or token, not both.
type Admin struct {
	// Token is the bearer token of these calls. Prefer token_file: a file is easier to protect. Default: none.
	Token string `yaml:"token"`
	// TokenFile is a file that holds the token. White space around the token is ignored. Default: none.
	TokenFile string `yaml:"token_file" path:"read"`
}

// API protects the listeners api, grpc, json and resp. Without any of these settings they answer programs of this machine
// only. Give token_file or token, not both, and read_token_file or read_token.
type API struct {
	// Token is the bearer token that callers send; the admin token is accepted too. Prefer token_file: a file is
	// easier to protect. Default: none.
	Token string `yaml:"token"`
	// TokenFile is a file that holds the token. White space around the token is ignored. Default: none.
	TokenFile string `yaml:"token_file" path:"read"`
	// ReadToken is a bearer token with which callers see what is left, and change nothing, at the admin listener too.
	// Prefer read_token_file. Default: none.
	ReadToken string `yaml:"read_token"`
	// ReadTokenFile is a file that holds the read token. White space around the token is ignored. Default: none.
	ReadTokenFile string `yaml:"read_token_file" path:"read"`
	// Open answers everybody who reaches a listener without client_ca, whatever the Host header names. Anybody who
	// reaches it can then use up the budget of any key. Default: false.
	Open bool `yaml:"open"`
}

// Check checks the settings, which are the section admin.
func (a *Admin) Check(s *reader.Source) { checkToken(s, "admin.token", a.Token, a.TokenFile) }

// Check checks the settings, which are the section api.
func (a *API) Check(s *reader.Source) {
	checkToken(s, "api.token", a.Token, a.TokenFile)
	checkToken(s, "api.read_token", a.ReadToken, a.ReadTokenFile)
	if a.Open && (a.Token != "" || a.TokenFile != "") {
		s.Follow("api.open", "is true, and there is a token, which callers need then", "remove one of them")
	}
}

// Admits reports whether the settings let callers of other machines decide.
func (a *API) Admits() bool { return a.Token != "" || a.TokenFile != "" || a.Open }

func checkToken(s *reader.Source, setting, token, file string) {
	if token != "" && file != "" {
		s.Follow(setting+"_file", "is given, and "+setting+" is too", "give one of them")
	}
	if s.Has(setting) && token == "" {
		s.Follow(setting, "is empty", "give a token, or remove the line")
	}
	if s.Has(setting+"_file") && file == "" {
		s.Follow(setting+"_file", "is empty", "give the path of a file, or remove the line")
	}
	if token != strings.TrimSpace(token) {
		s.Follow(setting, "has white space around it", "remove it")
	}
}
