package app

import "github.com/sluicehq/sluice/server/internal/listen/accept"

// server is a listener of the configuration.
type server struct {
	*accept.Server
	name   string
	at     string // the configured address
	scheme string // of the URL that is shown, such as https
	secure bool   // over TLS
	// access describes who gets an answer; empty for everybody at the proxy, and this machine elsewhere.
	access string
}
