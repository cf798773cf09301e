#!/usr/bin/env bash
# Runs the tests that need only Go: no server, no package of the system, no root and no network. They run without the race
# detector, which needs a C compiler. Arguments go to `go test`.
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2086 # one word a module
testall quick $modules tools -- -vet=off -ldflags=-s -timeout 5m "$@"
