package app

import (
	"errors"
	"slices"

	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
)

// adminAccess returns who may call the admin listener.
func (a *App) adminAccess() *access.Rules {
	r := &access.Rules{
		Name: Admin, Tokens: a.operators, Certificates: a.file.Listen.Admin.TLS.RequiresClient(),
		Remedy: "set admin.token_file in the configuration or SLUICE_ADMIN_TOKEN in the environment, demand client certificates with listen.admin.tls.client_ca",
	}
	r.OnRefused = a.audit.Refusals()
	return r
}

// callerAccess returns who may get decisions from a listener, such as the decision API. The admin token opens it too,
// because operators can do more.
func (a *App) callerAccess(name string, l accept.Listener) *access.Rules {
	r := &access.Rules{
		Name: name, Tokens: a.callers, Certificates: l.TLS.RequiresClient(), Open: a.file.API.Open,
		Remedy: "set api.token_file in the configuration or SLUICE_API_TOKEN in the environment, " +
			"demand client certificates with listen." + name + ".tls.client_ca, set api.open to true if everybody may get decisions",
	}
	r.OnRefused = a.audit.Refusals()
	return r
}

// setTokens makes the tokens that callers need, and reads them again when their files change.
func (a *App) setTokens() error {
	a.makeTokens(a.o.Token, a.o.APIToken)
	if a.o.ReadTokens == nil || len(a.o.TokenFiles) == 0 {
		return nil
	}
	return a.refreshes.add("the tokens", a.o.TokenFiles, func() error {
		token, apiToken, err := a.readTokens(a.file)
		switch {
		case err != nil:
			return err
		case (token == "") != (a.operators == nil) || (apiToken == "") != (a.callers == nil):
			return errors.New("a token was added or removed, which needs a restart")
		}
		if a.operators != nil {
			a.operators.Set(token)
		}
		if a.callers != nil {
			a.callers.Set(tokensOf(apiToken, token)...)
		}
		return nil
	})
}

// readTokens reads the tokens of a configuration.
func (a *App) readTokens(f *config.File) (token, apiToken string, err error) {
	if a.o.ReadTokens == nil {
		return a.o.Token, a.o.APIToken, nil
	}
	return a.o.ReadTokens(f)
}

// makeTokens makes the tokens that callers need.
func (a *App) makeTokens(token, apiToken string) {
	a.operators = access.NewTokens(tokensOf(token)...)
	if apiToken != "" {
		a.callers = access.NewTokens(tokensOf(apiToken, token)...)
	}
}

// tokensOf returns the tokens that are given.
func tokensOf(tokens ...string) []string {
	return slices.DeleteFunc(tokens, func(token string) bool { return token == "" })
}
