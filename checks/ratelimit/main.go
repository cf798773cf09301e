// Command ratelimit is envoyproxy/ratelimit, for `make bench-doors`. Its settings are environment variables. It is a module
// of its own, outside of go.work, because it needs many libraries.
package main

import (
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
)

func main() {
	r := runner.NewRunner(settings.NewSettings())
	r.Run()
}
