package app

import (
	"github.com/sluicehq/sluice/server/internal/access"
)

// adminAccess returns who may call the admin listener.
func (a *App) adminAccess() *access.Rules {
	r := &access.Rules{
		Name: Admin, Certificates: a.file.Listen.Admin.TLS.RequiresClient(),
		Remedy: "set admin.token_file in the configuration or SLUICE_ADMIN_TOKEN in the environment, demand client certificates with listen.admin.tls.client_ca",
	}
	if a.o.Token != "" {
		r.Tokens = []string{a.o.Token}
	}
	return r
}

// apiAccess returns who may call the decision API. The admin token opens it too, because operators can do more.
func (a *App) apiAccess() *access.Rules {
	r := &access.Rules{
		Name: API, Certificates: a.file.Listen.API.TLS.RequiresClient(), Open: a.file.API.Open,
		Remedy: "set api.token_file in the configuration or SLUICE_API_TOKEN in the environment, " +
			"demand client certificates with listen.api.tls.client_ca, set api.open to true if everybody may get decisions",
	}
	if a.o.APIToken != "" {
		r.Tokens = []string{a.o.APIToken}
		if a.o.Token != "" {
			r.Tokens = append(r.Tokens, a.o.Token)
		}
	}
	return r
}
