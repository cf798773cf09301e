#!/usr/bin/env bash
# Installs what the tests need and runs the tests of a day in every module. The tables in tools/testall/plan.go list the tests
# that run without the race detector, and the tests of the night. Arguments go to `go test`, as in: tools/test.sh -run
# TestBurst. Then nothing is installed: a test whose program is missing says what to install.
. "$(dirname "$0")/lib.sh"

[[ " $*" =~ \ --?(run|skip|list)([=\ ]|$) ]] || need_all
# A cached result does not depend on the programs that a test builds and runs, so -count 1. `make lint`
# vets the packages, so `go test` need not. Without symbols and tables for debuggers (-s), programs link faster.
# shellcheck disable=SC2086 # one word a module
testall day $modules tools checks/frameworks -- -count 1 -vet=off -ldflags=-s -timeout 20m "$@"
