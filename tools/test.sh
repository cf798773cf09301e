#!/usr/bin/env bash
# Installs what the tests need and runs the tests of every module. The tables in
# tools/testall/plan.go list the tests that run without the race detector. Arguments go
# to `go test`, as in: tools/test.sh -run TestBurst
. "$(dirname "$0")/lib.sh"

# The race detector needs cgo, and that a C compiler.
[ "${CGO_ENABLED:-1}" = 1 ] || die "CGO_ENABLED=$CGO_ENABLED: the race detector needs cgo; unset it"
need "$(go env CC | cut -d' ' -f1)" gcc libc6-dev
# The tests in checks/ start their own servers. The variable names another program for them; some
# run over Valkey in any case.
[ -n "${SLUICE_REDIS_SERVER:-}" ] || need redis-server redis-server
tools/valkey.sh
# A test loses packets between network namespaces.
if [ "$(uname)" = Linux ]; then
	need ip iproute2
	need nsenter util-linux
fi
# checks/gateways runs the examples of gateways, and checks/threats attacks them.
need_gateways
# checks/protocols has clients of Redis in several languages.
need redis-cli redis-tools
need_python redis python3-redis
need_php
need_npm checks/protocols/testdata/ioredis
# checks/schemas generates clients of the API, and lints its description.
need_npm checks/schemas/testdata/typescript
# checks/hybrid gives a server a wrong clock.
need_libfaketime

runner=$(mktemp -d)
trap 'rm -rf "$runner"' EXIT
GOWORK=off go -C tools build -o "$runner/testall" ./testall
# A cached result does not depend on the programs that a test builds and runs, so -count 1. `make lint`
# vets the packages, so `go test` need not. Without tables for debuggers (-w), programs link faster.
# shellcheck disable=SC2086 # one word a module
"$runner/testall" $modules tools checks/frameworks -- -count 1 -vet=off -ldflags=-w -timeout 20m "$@"
