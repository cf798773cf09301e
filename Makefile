# `make` without a target lists the targets. Commands of more than a line are in tools/*.sh.
SHELL := /bin/bash
.DEFAULT_GOAL := help
FUZZTIME ?= 10s
TIMES ?= 400
ROUNDS ?= 10

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start the server with its built-in quick-start policy
	go run ./server/cmd/sluice serve

.PHONY: build
build: ## Build bin/sluice
	go build -trimpath -o bin/sluice ./server/cmd/sluice

.PHONY: quick
quick: ## Run the tests that need only Go, in a minute
	@tools/quick.sh $(ARGS)

.PHONY: test
test: ## Install what the tests need and run the tests of every module (ARGS="-run Name" to pick)
	@tools/test.sh $(ARGS)

.PHONY: nightly
nightly: ## Run what `make test` leaves out, and every fuzz target for FUZZTIME each (default 10s)
	@tools/nightly.sh $(FUZZTIME)

.PHONY: test-traefik
test-traefik: ## Build Traefik and run the tests of gateways over it (the first time: minutes and gigabytes)
	@tools/traefik.sh $(ARGS)

.PHONY: test-chart
test-chart: ## Test the Helm chart, the manifests of Kubernetes and the workflows (the first time: minutes)
	GOWORK=off go -C checks/chart test -count 1 $(ARGS) .

.PHONY: lint
lint: ## Check formatting, imports, modules, and run the linters
	@tools/lint.sh

.PHONY: fmt
fmt: ## Format the code and tidy the modules
	@tools/fmt.sh

.PHONY: standalone
standalone: ## Build each module without the workspace, as its users do
	@tools/standalone.sh

.PHONY: smoke
smoke: ## Run the README's first command and send it real requests
	@tools/smoke.sh

.PHONY: bench
bench: ## Measure against peers and floors, and check the bars (ARGS="-o ../docs/benchmarks.md" publishes)
	go -C bench run . -check $(ARGS)

.PHONY: bench-redis
bench-redis: ## The same for limits in Redis: floors, peers and bars over one server (ARGS="…" for its flags)
	go -C bench run . -part redis $(ARGS)

.PHONY: bench-doors
bench-doors: ## The same for the doors of gateways, beside envoyproxy/ratelimit, and bin/traefik if it is there (ARGS="…" for its flags)
	GOWORK=off go -C checks/ratelimit build -o ../../bin/ratelimit .
	go -C bench run . -part doors -ratelimit ../bin/ratelimit $(if $(wildcard bin/traefik),-traefik ../bin/traefik) $(ARGS)

.PHONY: bench-hybrid
bench-hybrid: ## The same for hybrid limits in eight processes, with the plot of docs/hybrid.md (ARGS="…" for its flags)
	GOWORK=off go -C bench/gubernator build -o ../../bin/gubernator .
	go -C bench run . -part hybrid -gubernator ../bin/gubernator -plot ../docs/hybrid.svg $(ARGS)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME each (default 10s)
	@tools/fuzz.sh $(FUZZTIME)

.PHONY: soak
soak: ## Repeat what tests repeat TIMES as often (default 400) and run the faults ROUNDS times (10); hours
	@tools/soak.sh $(TIMES) $(ROUNDS)

.PHONY: cover
cover: ## Measure test coverage
	@tools/cover.sh

.PHONY: package
package: ## Make packages, an image, a chart and archives for Linux in dist/ (VERSION=v1.2.3 names them)
	GOWORK=off go -C tools/release run . -version $(or $(VERSION),v0.0.0)

.PHONY: test-package
test-package: ## Install what their tests need, and run the tests of packages and the image (as root)
	@tools/testpackage.sh

.PHONY: release
release: ## Rehearse a release and make all its files in dist/, twice: make release VERSION=v1.2.3 (tags nothing)
	@tools/release.sh "$(VERSION)"

.PHONY: clean
clean: ## Remove bin/, dist/ and .cache/
	rm -rf bin dist .cache
