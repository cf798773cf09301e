// Command sluice limits rates, as a reverse proxy and as a service that decides for other programs. `sluice serve`
// starts it, and `sluice help` lists the other commands.
package main

import (
	"os"

	"github.com/sluicehq/sluice/server/internal/cli"
)

func main() { os.Exit(cli.Main()) }
