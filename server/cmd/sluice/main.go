// Command sluice limits rates, as a reverse proxy and as a service that other
// programs ask. `sluice serve` starts it; `sluice help` lists what else there is.
package main

import (
	"os"

	"github.com/sluicehq/sluice/server/internal/cli"
)

func main() { os.Exit(cli.Main()) }
