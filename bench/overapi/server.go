package overapi

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluicehq/sluice/bench/process"
)

// The names of servers.
const (
	sluiceServer = "sluice"
	bareServer   = "bareapi"
)

// config limits what the callers request, and never denies.
const config = `version: 1
listen: {proxy: "off", api: '%s', admin: "off"}
rules: [{name: api, match: {path: /api/**}, key: client_ip, limit: {algorithm: token_bucket, rate: 1000000/s}}]
`

// startAll builds and starts both servers. The servers that run must be stopped even after an error.
func startAll(work string) (map[string]*process.Server, error) {
	servers := map[string]*process.Server{}
	for name, path := range map[string]string{
		sluiceServer: "github.com/sluicehq/sluice/server/cmd/sluice", bareServer: "github.com/sluicehq/sluice/bench/bareapi",
	} {
		program := filepath.Join(work, name)
		if err := process.Build(program, path); err != nil {
			return servers, err
		}
		address, err := process.FreeAddress()
		if err != nil {
			return servers, err
		}
		args := []string{address}
		if name == sluiceServer {
			file := filepath.Join(work, "sluice.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, config, address), 0o600); err != nil {
				return servers, err
			}
			args = []string{"serve", file}
		}
		if servers[name], err = process.Start(address, program, args...); err != nil {
			delete(servers, name)
			return servers, err
		}
	}
	return servers, nil
}
