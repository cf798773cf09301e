#!/usr/bin/env bash
# Runs what takes too long for every change: rates of bytes over 5 s, a thousand reloads and kills, the tests of decisions on
# Redis with each repetition multiplied, which is a million steps or more for each algorithm with the default of the
# Makefile, attacks on real services, and the fault matrix as often as given.
. "$(dirname "$0")/lib.sh"

times=${1:?usage: tools/soak.sh TIMES ROUNDS, as in 400 10}
rounds=${2:?usage: tools/soak.sh TIMES ROUNDS, as in 400 10}

need "$(go env CC | cut -d' ' -f1)" gcc libc6-dev
[ -n "${SLUICE_REDIS_SERVER:-}" ] || need redis-server redis-server

# Without the race detector: a gigabyte a second, and 100 MB/s through the proxy.
say "rates of bytes, over 5 s"
SLUICE_SOAK=1 go test -count 1 -p 1 -run 'Really|KeepTheRate' ./bandwidth ./httplimit
SLUICE_SOAK=1 go -C server test -count 1 -run 'AtTheRate' ./internal/edge/proxy
SLUICE_SOAK=1 go -C checks test -count 1 -run 'TestTwoProcessesKeepOneRate$' ./redis

say "a thousand configurations, under load"
SLUICE_SOAK=1 go -C server test -count 1 -run 'ReloadsUnderLoad' ./internal/app

say "a thousand kills of a server that saves its states"
SLUICE_SOAK=50 go -C checks test -v -count 1 -timeout 2h -run 'TestStatesSurviveKills' ./servers

# Without the race detector: these tests have one goroutine, and the number of steps matters.
say "decisions on Redis, each repetition $times times"
SLUICE_SOAK=$times go -C checks test -count 1 -timeout 24h -skip '^TestValkey' ./decisions

say "histories of concurrent callers, and laws, $times times"
SLUICE_SOAK=$times go -C checks test -race -count 1 -timeout 24h ./linearizable
RAPID_CHECKS=$((500 * times)) go -C checks test -count 1 -timeout 24h ./laws

say "hybrid limits in simulations, $rounds times as many seeds: ten thousand are some million requests"
SLUICE_SOAK=$rounds go test -count 1 -timeout 24h -run '^TestSimulationsKeepAllPromises$' ./hybrid

say "hybrid limits: all interleavings of up to three processes and six units"
SLUICE_SOAK=1 go test -count 1 -timeout 24h -run '^TestInterleavingsStayExact$' ./internal/granttest

say "hybrid limits in eight processes, $rounds times each fault"
SLUICE_SOAK=$rounds go -C checks test -count 1 -timeout 24h ./hybrid

# The seed is another one each time, and printed.
need_gateways
say "attacks on real services, $times times"
SLUICE_SOAK=$times go -C checks test -v -count 1 -timeout 24h -run '^Test(NothingGetsPast|NothingComesBack|DescriptionsAreDecidedAsRequests)$' ./threats

say "gateways by Traefik itself, and $times times the attacks"
SLUICE_SOAK=$times tools/traefik.sh -v -timeout 24h

say "$rounds rounds of faults"
go -C checks test -race -count "$rounds" -timeout "$((rounds * 15))m" -skip '^TestValkey' ./faults
go -C checks test -count "$rounds" -timeout "$((rounds * 5))m" -run '^Test(LostReplies|LostReplyThroughGuard|FullServersRefuseOrForget|SkewedClocks)$' ./decisions
