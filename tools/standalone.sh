#!/usr/bin/env bash
# Builds each module without the workspace, as its users do, and type-checks its
# tests. It fails where a module leans on another's requirements.
. "$(dirname "$0")/lib.sh"

export GOWORK=off
for m in $modules $outside; do
	say "$m"
	go -C "$m" build -o /dev/null ./...
	go -C "$m" vet ./...
done
