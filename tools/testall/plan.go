package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ours begins the import paths of the workspace.
const ours = "github.com/sluicehq/sluice"

// early are the packages that start first: their tests wait the longest, so that the
// others run meanwhile.
var early = []string{
	"checks/servers",
	"checks/browser",
	"checks/decisions",
	"checks/faults",
	"server/internal/cli",
	"server/internal/app",
	"checks/redis",
	"server/internal/edge/proxy",
	"checks/threats",
	"checks/protocols",
	"checks/schemas",
	"checks/gateways",
	"checks/monitoring",
}

// The race detector makes a test three to fifteen times as slow, and cannot find a race where
// only one goroutine runs. These tables list the packages and tests that run without it. All
// others run with it.

// plain are the packages whose tests run without the race detector, with the reason.
var plain = map[string]string{
	"driver":                   "the store of the example has one lock; the stores that use the arithmetic run with the detector",
	"internal/algo":            "pure functions",
	"bench":                    "prints measurements",
	"bench/figures":            "one goroutine writes tables",
	"bench/floor":              "code for comparisons, which no user runs",
	"bench/inprocess":          "measures, which the race detector falsifies",
	"bench/overapi":            "measures, which the race detector falsifies",
	"bench/overchanges":        "measures, which the race detector falsifies",
	"bench/overdoors":          "measures, which the race detector falsifies",
	"bench/overfleet":          "measures, which the race detector falsifies",
	"bench/overproxy":          "measures, which the race detector falsifies",
	"bench/overredis":          "measures, which the race detector falsifies",
	"bench/peers":              "code of other projects",
	"checks/decisions":         "one goroutine calls both stores in turn; the crowds are in checks/redis and checks/faults",
	"checks/faults":            "the faults are in other processes; crowded lists what callers share",
	"checks/browser":           "the server and the browser are other processes",
	"checks/fleet":             "one goroutine searches a ledger; checks/hybrid starts the processes",
	"checks/hybrid":            "the callers are other processes; package hybrid runs with the detector",
	"checks/gateways":          "the gateways and sluice are other processes",
	"checks/laws":              "one goroutine calls the store and the oracle in turn",
	"checks/linearizable":      "most of the work is the checker of histories; the tests of memory find races",
	"checks/monitoring":        "the servers and Prometheus are other processes",
	"checks/process":           "a harness; the packages that use it run with the detector",
	"checks/program":           "builds a program; the lock is between processes",
	"checks/promises":          "reads the documentation",
	"checks/protocols":         "the servers and clients under test are other processes",
	"checks/redis":             "most tests call a server in turn; crowded lists the others",
	"checks/redistest":         "a harness; the packages that use it run with the detector",
	"checks/schemas":           "the server and its clients are other processes",
	"checks/servers":           "the servers under test are other processes",
	"checks/threats":           "the servers under test are other processes; crowded has the middleware",
	"checks/vectors":           "one goroutine replays a vector",
	"internal/granttest":       "one goroutine; the packages that use it run with the detector",
	"internal/modelusage":      "pure functions",
	"internal/oracle":          "pure functions",
	"memory":                   "most tests fill tables from one goroutine; crowded lists the others",
	"policy":                   "most tests decide in one goroutine; crowded lists the exception",
	"internal/file/envoy":      "reads files",
	"internal/file/expression": "most tests parse a text; crowded lists the exception",
	"internal/file/reader":     "pure functions",
	"internal/file/rules":      "reads files",
	"policy/internal/paths":    "pure functions",
	"policyfile":               "reads files",
	"server/internal/app":      "most tests send one request after another; crowded lists the others",
	"server/internal/config":   "reads files",
	"server/internal/cli":      "most tests start a process for each command; crowded lists two with a server under load",
	"storetest":                "the stores that use it run with the detector",

	"server/internal/insight/logs":    "one goroutine reads lines",
	"server/internal/insight/replay":  "most reports are of one goroutine; crowded lists the reports of several",
	"server/internal/insight/suggest": "one goroutine calls package replay",
	"server/internal/observe/fleet":   "pure functions",
}

// crowded are the tests of plain packages that run with the race detector: they have several goroutines. By night, all tests
// of these packages do.
var crowded = map[string][]string{
	"checks/faults":            {"TestBatchesOverSlotsCompete", "TestReleaseOnce", "TestScriptFlush"},
	"checks/redis":             {"TestAdapterCutUnderLoad", "TestAdapterLifetime", "TestAdapterPausedServer", "TestGateConcurrency"},
	"checks/threats":           {"TestNothingGetsPastTheMiddleware"},
	"memory":                   {"TestMemoryKeepsTheContractConcurrently", "TestFastBatchesCompete", "TestLimitsComeAndGoConcurrently", "TestSavesUnderLoad", "TestTablesGrowConcurrently"},
	"policy":                   {"TestVerdictsAreTheirOwn"},
	"internal/file/expression": {"TestExpressionConcurrently"},
	"server/internal/app": {
		"TestAnOpenPageDoesNotDelayTheDrain", "TestBudgetIsExact", "TestCallsOfEnvoyAreDecidedAndCounted", "TestCertificatesChangeUnderLoad",
		"TestDecisionsOfRedisClientsAreCounted", "TestEachChangeIsAudited", "TestEdgesShareThePressureOfARule", "TestHangingUpBuysNoAttempts",
		"TestNoisyListenerHidesNoOther", "TestOverridesLast", "TestRapidReset", "TestReloadChangesWhatIsNear", "TestReloadsUnderLoad",
		"TestRequestsUnderWayEndBeforeTheServerDoes", "TestSlowAndManyProxiedConnections", "TestSlowClientsHurtNobody",
		"TestTheDashboardIsTheMetrics", "TestTokensChange", "TestWebhookHysteresis", "TestWhatAReloadChanges",
	},
	"server/internal/cli":            {"TestNoRequestIsLostWhenTheServerStops", "TestTheProgramFollowsItsFile"},
	"server/internal/insight/replay": {"TestShardsChangeNothing"},
}

// lone are the tests of the other packages that run only without the race detector: they
// try a great many inputs from one goroutine.
var lone = map[string][]string{
	".":         {"TestKeysDiffer"},
	"bandwidth": {"TestConnectionsShareTheRateFairly", "TestRateExactly"},
	"guard":     {"TestFlapsAddTheShare", "TestGuardKeepsTheContract", "TestScaleLaw", "TestScaledLimitsAreKept", "TestSharesAddUp"},
	"hybrid": { // the goroutines of a virtual clock wait most of the time
		"TestAllUnitsAreAdmittedUnderOverload", "TestBoundedMemory", "TestBoundOverALossyNetwork", "TestExactProcessesShare",
		"TestExactProcessesShareWithHaste", "TestFairShares", "TestHybridKeepsTheContract", "TestHybridLimitsFollowOverrides",
		"TestLargeBatches", "TestRolloutsKeepTheBoundOfBothNumbers", "TestSimulatedBurst", "TestSimulatedLoweredNumbers",
		"TestSimulatedSeeds", "TestSimulatedWindow", "TestSimulationsKeepAllPromises", "TestUnusedLimitsAreForgotten",
	},
	"httplimit": {
		"FuzzRoutes", "TestForwardedForSpoofing", "TestIPv6Rotation", "TestModelBodiesArriveWhole", "TestPartsOfKeysDoNotCollide",
		"TestReadAheadLaw", "TestReadOnceEqualsReadEach", "TestRulesMatchWhatReachesTheirHandlers", "TestSameHandlerSameKey", "TestWorstRequestsAreCheap",
	},
	"policy/internal/keys":              {"TestTableIsAMap", "TestTableIsCompact"},
	"redisstore":                        {"TestKeysAreInjective"},
	"server/internal/edge/api":          {"TestCallersShareTheRoom", "TestReplaysAreBounded", "TestTheAnswersOfABatchAreBounded"},
	"server/internal/edge/pipeline":     {"TestDecidesAsOneByOne"},
	"server/internal/edge/proxy":        {"TestLeavesBodiesAsTheyAre"},
	"server/internal/edge/resp":         {"TestChangedNumbersKeepTheBound", "TestChangedNumbersKeepWhatWasUsed", "TestFloodOfNumbers", "TestLongTransactions", "TestThrottleEqualsOracle"},
	"server/internal/edge/spoe":         {"TestProxyNeverReads"},
	"server/internal/observe/live":      {"TestAllowedKeysAreEstimated", "TestDenialsAreBracketed", "TestTrialsEqualTheirOracle"},
	"server/internal/observe/telemetry": {"TestKeysMakeNoSeries"},
	"server/internal/store/local":       {"TestFileOfStatesStaysSmall"},
	"server/internal/store/overrides":   {"TestTextsAreAMap", "TestTextsTakeLittleMemory"},
}

// timed are the tests of all packages that measure shares of limits, compare times, or make thousands of calls a second
// with a deadline. They run at the end, one package at a time, without the race detector. They wait half of their time. Beside
// them, the lone tests, the tests on 32 bits, and the plain packages without servers take idle processors only: chrt of Linux makes
// them yield.
var timed = map[string][]string{
	"checks/browser":   {"TestSilenceIsShownWithinThreeSeconds"},
	"checks/faults":    {"TestClusterFailover", "TestHungMaster", "TestSentinelFailover"},
	"checks/hybrid":    {"TestFailoverAddsOneLimit", "TestProcessesAreKilledAndStopped"},
	"checks/protocols": {"TestStoreFaults", "TestThrottlePipelinesOverACluster"},
	"checks/servers":   {"TestHangingServersAreShownWithinThreeSeconds"},
	"gate":             {"TestWakeUpsAreNotLinear"},
}

// measured are the tests that measure processor time. They run last, while nothing else does: two processors may be one core, on which
// everything takes longer while the other one is busy.
var measured = map[string][]string{
	"checks/protocols": {"TestWorstRequestsAreCheapAtListeners"},
}

// nightly are the tests that only `make nightly` runs, one package at a time, without the race detector. Other tests prove
// their promises by day.
var nightly = map[string][]string{
	// By day, virtual time proves rates of bytes, and TestCopyKeepsToTheRate shows the system's clock.
	"bandwidth":                  {"TestFairnessReally", "TestRateReally"},                                // TestConnectionsShareTheRateFairly, TestRateExactly
	"checks/redis":               {"TestTwoProcessesKeepOneRate"},                                         // TestCallsSeldom, TestSeveralFlows of bandwidth
	"httplimit":                  {"TestDownloadsKeepTheRate", "TestUploadsKeepTheRate"},                  // TestBandwidthExactly
	"server/internal/edge/proxy": {"TestAnswersAreForwardedAtTheRate", "TestBodiesAreForwardedAtTheRate"}, // TestBandwidthExactly of httplimit
	// Valkey runs the scripts that Redis runs. By day, TestValkeyAdapterReplies, TestValkeyAdapterCluster, TestValkeyCheck,
	// TestValkeyServesTheProxy of checks/servers, and the tests over Valkey that are not here run over it, and all of these run over Redis.
	"checks/decisions": {
		"TestClusterKeepsTheContract", // TestRedisKeepsTheContract, TestBatchesOfWindowsOnACluster, and over the slots of batches TestBatchOverSlots of checks/faults
		"TestValkeyBansAreListed", "TestValkeyBansAreListedOnACluster", "TestValkeyBansByHandEqualMemory", "TestValkeyBatchesOfWindows",
		"TestValkeyBucketsExpire", "TestValkeyKeepsTheContract", "TestValkeyFullServersRefuseOrForget", "TestValkeyGrantsEqualOracle",
		"TestValkeyGrantsHoldTheBound", "TestValkeyLeasesAsInMemory", "TestValkeyLeastPrivilege", "TestValkeyLeastPrivilegeIsLeast", "TestValkeyLeastPrivilegeOnACluster",
		"TestValkeyLeastPrivilegeWithSentinels", "TestValkeyWindowsExpireWhenFresh",
	},
	"checks/faults": {
		"TestDerivedSentinelFailover", // TestSentinelFailover, and TestDerivedClientsHaveTheOptions of goredisstore
		"TestHalfOpen",                // TestRueidisLeavesSilentConnections
		"TestHungMasterUnguarded",     // TestHungMaster
		"TestPacketLoss",              // TestRueidisLeavesSilentConnections, and TestConnectionsWithoutAnswerAreTriedAgain of goredisstore
		"TestValkeyBatchOverSlots", "TestValkeyClusterFailover", "TestValkeySentinelFailover",
	},
	"checks/servers": {
		"TestMemoryOfTheProcess",         // TestTheCollectorLeavesRoomForStates of server/internal/cli, TestClientsFillWhatIsDocumented of checks/protocols
		"TestForeignClientsSeeNoRestart", // TestRestartsBehindASocketLoseNothing, TestServersThatShareAPortLoseNothing
		"TestVersionsShareAFile",         // TestSavedStatesOfThisVersion of memory
		"TestVersionsShareRedis",         // TestStatesInRedisKeepTheirBytes of checks/decisions
	},
	"checks/linearizable":    {"TestBrokenStores"},              // of the harness; TestEachKeyIsLinearizable and TestBatchesAreLinearizable have its histories of stores that are whole
	"checks/threats":         {"TestAttacksReachWithoutSluice"}, // of the harness; TestNothingGetsPast has the same attacks
	"hybrid":                 {"TestSimulationNotices"},         // of the harness; TestSimulationsKeepAllPromises plays the same scenarios
	"server/internal/config": {"TestManyDescriptors"},           // TestManyRules, TestManyEntries
	// By day, package hybrid has these tests in virtual time.
	"checks/hybrid": {
		"TestBothHalvesShareOverRedis", // TestExactProcessesShare
		"TestClocksDrift",              // TestGrantsEnd, TestSimulationsKeepAllPromises
		"TestLoweredNumbers",           // TestSimulationsKeepAllPromises
		"TestProcessesRollOut",         // TestRolloutsKeepTheBoundOfBothNumbers
		"TestProcessesShareFairly",     // TestSimulationsKeepAllPromises
		"TestServerClocks",             // TestSimulationsKeepAllPromises
		"TestSlotsMove",                // TestSlotsMigrateUnderLoad of checks/faults moves slots
	},
}

// harnesses are the packages whose tests only `make nightly` runs: they measure, or they test the code of other tests, which
// fail by day if it does not work.
var harnesses = []string{"bench", "checks/fleet", "checks/process", "checks/program", "checks/redistest"}

// equipped are the packages whose tests need servers or other packages of the system. `make quick` leaves them out.
var equipped = []string{
	"checks/browser", "checks/decisions", "checks/faults", "checks/gateways", "checks/hybrid", "checks/linearizable", "checks/monitoring", "checks/protocols",
	"checks/redis", "checks/schemas", "checks/servers", "checks/threats", "checks/vectors",
}

// narrow are the tests that also run as programs of 32 bits: they read what may be damaged. There, an int has no room for
// some of its numbers.
var narrow = map[string][]string{
	".":                        {"TestEncodedKey"},
	"memory":                   {"FuzzLoad", "TestDamagedFiles", "TestDamagedTails", "TestSavedStatesOfThisVersion"},
	"internal/file/expression": {"TestLargeRequests", "TestNumbersAreReadAsServicesRead"},
	"internal/file/reader":     {"TestLargeSizes"},
	"internal/savedlimit":      {"TestLimitsBeyondAnInt"},
	"redisstore":               {"FuzzGrantReply", "FuzzMsgpack", "FuzzReply", "FuzzWindowViews", "TestWindowViewsOfOthers"},
}

// runsNarrow reports whether this machine runs programs of 32 bits without further ado.
const runsNarrow = runtime.GOOS == "linux" && runtime.GOARCH == "amd64"

// programs is the folder of test programs. The go command links a program only if the folder does not have it, or if its code has
// changed. Without a folder, it links more than a hundred programs each time. The packages of a run must differ in the last
// word of their import paths: the go command refuses two programs of the same name.
const programs = ".cache/tests"

// A run is one `go test` over some packages of one module or workspace.
type run struct {
	name     string
	dir      string
	env      []string
	race     bool
	flags    []string
	idle     bool // runs only while the processors have nothing else to do
	together int  // how many packages may run, or compile, at once; 0: as many as there are processors
	packages []string
	kept     string // the folder of programs that keeps the linked test programs; "": they are not kept

	used time.Duration // processor time, with the programs that the tests started
}

// slow are the tests that `make quick` leaves out too: one needs root, and the others take seconds of processor time.
var slow = map[string][]string{
	"server/internal/cli":    {"TestStartsOnAFullDisk"},
	"server/internal/config": {"TestBombsAreErrorsAndCostLittle"},
}

// A tier is a part of the tests.
type tier string

// The tiers. See CONTRIBUTING.md.
const (
	quick tier = "quick"
	day   tier = "day"
	night tier = "night" // only what the day leaves out
)

// yields is the program of Linux that runs others while the processors have nothing else to do. It is "" if there is none.
var yields, _ = exec.LookPath("chrt")

// plan returns the runs for the packages of the workspace: phases that follow each other, with chains that go on at the
// same time. The runs of a chain share what they compile. If the caller picks tests, each package is in one run.
func plan(packages []string, t tier, picked bool) (phases [][][]run) {
	packages = inOrder(packages)
	rest := without(packages, harnesses)
	switch {
	case picked:
		return [][][]run{{used(raced(packages)), used(unraced(packages))}}
	case t == quick:
		// Without servers, tests wait most of the time.
		r := run{name: "quick tests", packages: without(rest, equipped), together: 2 * atOnce(), flags: []string{"-skip", names(lone, timed, measured, nightly, slow), "-parallel", "6"}}
		return [][][]run{{used(r)}}
	case t == night:
		runs := []run{
			{name: "harnesses", packages: within(packages, harnesses)},
			{name: "nightly tests", packages: in(packages, nightly), flags: []string{"-run", names(nightly)}},
			{name: "with the race detector", packages: in(packages, crowded), flags: []string{"-skip", names(timed, measured, nightly)}, race: true},
		}
		for i := range runs {
			runs[i].together = 1
		}
		return [][][]run{{used(runs...)}}
	}
	first, second := raced(rest), unraced(rest)
	first.flags = []string{"-skip", names(lone, timed, measured, nightly)}
	second.flags = []string{"-skip", names(crowded, timed, measured, nightly)}
	third := second // what needs no server, and waits for nothing
	third.name, third.together = "without servers", atOnce()
	third.packages = without(second.packages, slices.Concat(equipped, slices.Collect(maps.Keys(crowded))))
	second.packages = slices.DeleteFunc(second.packages, func(p string) bool { return slices.Contains(third.packages, p) })
	chain := []run{first, {name: "crowded tests", packages: in(packages, crowded), flags: []string{"-run", names(crowded)}, race: true, kept: "race"}}
	others := []run{{name: "lone tests", packages: in(packages, lone), flags: []string{"-run", names(lone)}, kept: "lone"}, third}
	if runsNarrow {
		others = append(others, run{
			name: "tests on 32 bits", packages: in(packages, narrow), flags: []string{"-run", names(narrow)},
			env: []string{"GOARCH=386", "CGO_ENABLED=0"}, kept: "386",
		})
	}
	alone := run{name: "timed tests", packages: in(packages, timed), flags: []string{"-run", names(timed)}, together: 1, kept: "plain"}
	calm := run{name: "measured tests", packages: in(packages, measured), flags: []string{"-run", names(measured)}, kept: "plain"}
	last := [][]run{used(calm)}
	if yields == "" {
		return [][][]run{{used(second), used(append(chain, others...)...)}, {used(alone)}, last}
	}
	for i := range others {
		others[i].idle = true
	}
	return [][][]run{{used(second), used(chain...)}, {used(alone), used(others...)}, last}
}

// atOnce is how many packages run at once. Many tests wait for servers and for time, so these are more than the processors.
func atOnce() int { return max(2, runtime.GOMAXPROCS(0)) }

// raced returns the run of the packages with the race detector.
func raced(packages []string) run {
	r := run{name: "with the race detector", race: true, together: atOnce(), kept: "race"}
	for _, p := range packages {
		if _, found := plain[room(p)]; !found {
			r.packages = append(r.packages, p)
		}
	}
	return r
}

// unraced returns the run of the plain packages.
func unraced(packages []string) run {
	r := run{name: "without the race detector", together: atOnce() + 2, kept: "plain"} // most of them wait for servers
	for _, p := range packages {
		if _, found := plain[room(p)]; found {
			r.packages = append(r.packages, p)
		}
	}
	return r
}

// within returns the packages that are in some rooms, or below them.
func within(packages, rooms []string) (some []string) {
	for _, p := range packages {
		if slices.ContainsFunc(rooms, func(r string) bool { return strings.HasPrefix(room(p)+"/", r+"/") }) {
			some = append(some, p)
		}
	}
	return some
}

// without returns the other packages.
func without(packages, rooms []string) []string {
	there := within(packages, rooms)
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return slices.Contains(there, p) })
}

// used returns the runs that have packages, in the folder of the workspace.
func used(runs ...run) []run {
	runs = slices.DeleteFunc(runs, func(r run) bool { return len(r.packages) == 0 })
	for i := range runs {
		runs[i].dir = "."
	}
	return runs
}

// picks reports whether flags of `go test` pick tests.
func picks(flags []string) bool {
	return slices.ContainsFunc(flags, func(f string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(f, "-"), "=")
		return name == "run" || name == "skip" || name == "list"
	})
}

// names returns a pattern for the tests of tables.
func names(tables ...map[string][]string) string {
	var all []string
	for _, table := range tables {
		for _, tests := range table {
			all = append(all, tests...)
		}
	}
	slices.Sort(all)
	return "^(" + strings.Join(slices.Compact(all), "|") + ")$"
}

// in returns the packages that are in a table.
func in(packages []string, table map[string][]string) (some []string) {
	for _, p := range packages {
		if table[room(p)] != nil {
			some = append(some, p)
		}
	}
	return some
}

// inOrder returns the packages with the early ones first: `go test` starts them in the
// order in which it is given them.
func inOrder(packages []string) []string {
	var all []string
	for _, e := range early {
		if p := ours + "/" + e; slices.Contains(packages, p) {
			all = append(all, p)
		}
	}
	for _, p := range packages {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// room returns the folder of a package, seen from the top of the repository.
func room(p string) string {
	if p == ours {
		return "."
	}
	return strings.TrimPrefix(p, ours+"/")
}

// test runs the tests and writes their events.
func (r *run) test(flags []string, events io.Writer) error {
	args := []string{"test", "-json"}
	if r.race {
		args = append(args, "-race")
	}
	if r.together > 0 {
		args = append(args, "-p", strconv.Itoa(r.together))
	}
	if r.kept != "" {
		folder, err := filepath.Abs(filepath.Join(programs, r.kept))
		if err != nil {
			return err
		}
		args = append(args, "-o", folder+string(filepath.Separator))
	}
	args = slices.Concat(args, r.flags, flags, r.packages)
	args = append([]string{"go"}, args...)
	if r.idle {
		args = append([]string{yields, "--idle", "0"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), r.env...)
	if r.race && os.Getenv("GORACE") == "" {
		// A program with the race detector sleeps for a second at its end, to give goroutines that still run
		// time for a race. Most tests wait for theirs, and some seventy packages would sleep for a second each.
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=50")
	}
	if (r.kept == "race" || r.kept == "lone") && os.Getenv("GOGC") == "" {
		// Fewer collections save an eighth of the processor time. The tests of the other programs measure servers, which have users' settings.
		cmd.Env = append(cmd.Env, "GOGC=400")
	}
	cmd.Stdout = events
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	if s := cmd.ProcessState; s != nil {
		r.used = s.UserTime() + s.SystemTime()
	}
	return err
}
