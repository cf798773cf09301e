package app

import (
	"github.com/sluicehq/sluice/policyfile"
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

// callerAccess returns who may get decisions from a listener, such as the decision API. The admin token opens it too,
// because operators can do more.
func (a *App) callerAccess(name string, l policyfile.Listener) *access.Rules {
	r := &access.Rules{
		Name: name, Certificates: l.TLS.RequiresClient(), Open: a.file.API.Open,
		Remedy: "set api.token_file in the configuration or SLUICE_API_TOKEN in the environment, " +
			"demand client certificates with listen." + name + ".tls.client_ca, set api.open to true if everybody may get decisions",
	}
	if a.o.APIToken != "" {
		r.Tokens = []string{a.o.APIToken}
		if a.o.Token != "" {
			r.Tokens = append(r.Tokens, a.o.Token)
		}
	}
	return r
}
