#!/usr/bin/env bash
# Builds Traefik and runs the tests of gateways over it. `make test` runs them over a program that does what Traefik
# documents. Arguments go to `go test`.
. "$(dirname "$0")/lib.sh"

need_gateways
export SLUICE_TRAEFIK

say "building Traefik, which takes minutes the first time"
(cd checks/traefik && GOWORK=off go mod tidy -diff) || die "checks/traefik: run go mod tidy there"
# Go's build cache keeps the program.
SLUICE_TRAEFIK=$(GOWORK=off GOFLAGS=-ldflags=-w go -C checks/traefik tool -n traefik)

say "Traefik"
go -C checks test -count 1 -run '^Test.*/^Traefik' "$@" ./gateways
say "attacks on Traefik"
go -C checks test -count 1 -run '^TestNothingGetsPastGateways$' "$@" ./threats
say "the benchmark over Traefik"
go -C bench test -count 1 -run '^TestEveryCallOverDoors$' "$@" ./overdoors
