#!/usr/bin/env bash
# Runs what a day does not: the tests that tables in tools/testall/plan.go leave to the night, strict figures, sluice
# itself with the race detector, the mutations of tools/mutants, and every fuzz target. For a machine that does nothing else.
. "$(dirname "$0")/lib.sh"

fuzztime=${1:?usage: tools/nightly.sh FUZZTIME, as in 10s}
failed=()
step() {
	say "$1"
	shift
	"$@" || failed+=("$*")
}

# calmly tries up to three times: figures without an excuse must hold on a machine that is calm, and its host may be busy meanwhile.
calmly() {
	for _ in 1 2 3; do
		"$@" && return
	done
	return 1
}

need_all
need wrk wrk
# shellcheck disable=SC2086 # one word a module
step "what the day leaves out" testall night $modules -- -count 1 -vet=off -timeout 20m
step "what tests repeat, ten times as often as by day" env SLUICE_SOAK=10 go test -count 1 -timeout 60m -skip '^TestValkey' \
	. ./driver ./hybrid ./internal/algo ./internal/modelusage ./memory ./policy ./redisstore ./checks/decisions ./checks/linearizable \
	./server/internal/config ./server/internal/edge/api ./server/internal/edge/rls ./server/internal/insight/logs ./server/internal/insight/replay
step "the same of some tests" env SLUICE_SOAK=10 go test -count 1 -timeout 60m -run \
	'^Test(BatchesOverSlotsCompete|BytesHurtNoDoor|DecidesAsTheOriginal|ExactAcrossProcesses|NothingGetsPast.*|OverridesOnEightServers|PartsOfKeysDoNotCollide|ReadAheadLaw|ReadOnceEqualsReadEach|ReloadsUnderLoad|ReplaysAgreeWithServers|RulesMatchWhatReachesTheirHandlers|RestartsBehindASocketLoseNothing|ScriptFlush|ServersThatShareAPortLoseNothing|StatesSurviveKills)$' \
	./httplimit ./checks/faults ./checks/protocols ./checks/redis ./checks/servers ./checks/threats ./server/internal/app
step "faults, without excuses for a busy machine" calmly env SLUICE_STRICT=1 go -C checks test -count 1 -run '^Test(Faults|HungMaster)' ./faults
# These measure the server's memory and processor time, which the race detector multiplies.
step "the server with the race detector" env SLUICE_PROGRAM_FLAGS=-race GORACE=halt_on_error=1 go -C checks test -count 1 -p 1 -timeout 60m -skip \
	'^Test(ClientsFillWhatIsDocumented|MemoryOfTheProcess|WorstRequestsAreCheapAtListeners)$' ./servers ./protocols ./threats
GOWORK=off go -C tools build -o ../bin/mutants ./mutants
step "mutations: each breaks a promise, and its test must fail" bin/mutants .
step "fuzz targets" tools/fuzz.sh "$fuzztime"

[ ${#failed[@]} = 0 ] || die "$(printf 'failed: %s\n' "${failed[@]}")"
