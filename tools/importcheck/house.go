package main

// The names of rooms are their folders, seen from the top of the repository; a
// room includes the folders below it. "*" matches one folder name.
const (
	domain     = "." // package sluice itself
	wireApp    = "server/internal/app"
	wireCLI    = "server/internal/cli"
	inWords    = "server/internal/describe"
	secrets    = "server/internal/secret"
	wireTypes  = "server/internal/wire"
	smallRooms = "server/internal/*"
	edges      = "server/internal/edge/*"
	reported   = "server/internal/edge/gateway"
	pipelines  = "server/internal/edge/pipeline"
	edgetest   = "server/internal/edge/edgetest"
	listening  = "server/internal/listen/*"
	accepting  = "server/internal/listen/accept"
	storing    = "server/internal/store"
	saving     = "server/internal/store/*"
	stateFile  = "server/internal/store/statefile"
	overriding = "server/internal/store/overrides"
	peering    = "server/internal/store/peers"
	decisions  = "server/internal/observe"
	observing  = "server/internal/observe/*"
	adding     = "server/internal/observe/fleet"
	accessLogs = "server/internal/insight/logs"
	pages      = "server/internal/insight/page"
	replays    = "server/internal/insight/replay"
	suggests   = "server/internal/insight/suggest"
	oracleRoom = "internal/oracle"
	granttest  = "internal/granttest"
	sharedRoom = "internal/share"
	soakRoom   = "internal/soak"
	faultRoom  = "internal/faults"
	spellings  = "internal/spelling"
	removals   = "internal/removal"
	unmetRoom  = "internal/condition"
	sourceRoom = "internal/source"
	descriptor = "internal/descriptors"
	denials    = "internal/denial"
	keyedRoom  = "internal/keyed"
	fetching   = "internal/prefetch"
	modelRoom  = "internal/modelusage"
	inPolicy   = "policy/internal/*"
	fileReader = "internal/file/reader"
	conditions = "internal/file/expression"
	fileRules  = "internal/file/rules"
	envoyFiles = "internal/file/envoy"
	settings   = "server/internal/config"
)

// A room is one row of the house: what the packages of one folder may import of
// ours. Every import is checked, so indirect imports need no rows of their own.
type room struct {
	name     string
	may      []string // rooms its code may import, besides itself
	mayTests []string // rooms its tests may import besides those
	remedy   string   // what to do about an import that is not listed
}

// Groups of rooms that several rows share.
var (
	// belowPolicy is what the packages below policy import.
	belowPolicy = []string{domain, "driver", "internal/algo"}

	// ofRequests has what policy and the rooms above it share about requests, and no user of the library needs.
	ofRequests = []string{spellings, removals, sourceRoom, descriptor, unmetRoom}

	// belowEdge is what an edge imports. It has no store.
	belowEdge = join(ofRequests, []string{denials, "httplimit", "gate", "bandwidth", "policy", domain})

	// stores hold state. Code takes a sluice.Store; only server/internal/store chooses one.
	stores = []string{"memory", "redisstore", "hybrid", "guard", "rueidisstore", "goredisstore"}

	// aStore is what each of our stores imports.
	aStore = []string{"internal/translate", "internal/savedlimit", "driver", domain, "internal/algo"}

	// moduleOne is the library. Its tests may use all of it, since a runnable
	// example needs a store and every store runs the contract.
	moduleOne = []string{
		domain, "driver", "internal/algo", "memory", "redisstore", "hybrid", "guard", "storetest",
		"bandwidth", "policy", "gate", "httplimit",
	}
)

// house is the import rule of the architecture, row by row, lowest room first.
// A room that is not here is an error: add its row together with its first file.
var house = []room{
	// Module 1, the library.
	{oracleRoom, nil, nil, "the oracle computes from definitions; it must not use the code that tests compare with it"},
	{granttest, join(aStore, []string{oracleRoom}), []string{"memory"}, "granttest is a store of the oracle, for tests; only tests import it"},
	{"internal/algo", nil, join(moduleOne, []string{oracleRoom}), "algo is pure arithmetic over its arguments; pass in what it needs"},
	{domain, []string{"internal/algo"}, moduleOne, "the domain imports algo only; declare an interface here and let the other room implement it"},
	{"internal/savedlimit", []string{"internal/algo", domain}, nil, "savedlimit writes numbers of limits; states belong to the stores"},
	{"driver", []string{"internal/savedlimit", "internal/translate", "internal/algo", domain}, moduleOne, "driver is what authors of stores need beside the domain; it has no store"},
	{"internal/translate", belowPolicy, moduleOne, "translate converts between the domain and algo; it keeps no state"},
	{fetching, nil, nil, "prefetch loads memory; pass in its address"},
	{"internal/retry", nil, nil, "retry works on times and functions only; pass in what it repeats"},
	{"internal/ratetest", nil, nil, "ratetest measures bytes, for tests"},
	{soakRoom, nil, nil, "soak counts what tests repeat"},
	{"internal/modeltest", nil, nil, "modeltest is a service and its callers, for tests"},
	{sharedRoom, nil, nil, "share counts what callers take; pass in who they are"},
	{"memory", join(aStore, []string{fetching}), moduleOne, "a store imports the domain and algo only; move code that needs more to policy or above"},
	{"redisstore", aStore, moduleOne, "a store imports the domain and algo only; move code that needs more to policy or above"},
	{"hybrid", aStore, join(moduleOne, []string{oracleRoom, granttest}), "hybrid works over any store that grants units; take a driver.Grantor"},
	{"guard", join(aStore, []string{"internal/retry"}), moduleOne, "guard works over any store; take a sluice.Store"},
	{"storetest", belowPolicy, moduleOne, "the contract uses the domain's types only; take a factory of stores"},
	{"bandwidth", []string{domain}, join(moduleOne, []string{"internal/ratetest"}), "bandwidth paces bytes through a sluice.Store; it has no rules"},
	{faultRoom, nil, nil, "faults is what checks return; it imports nothing"},
	{spellings, []string{faultRoom}, nil, "spelling works on texts; rules and requests belong to policy"},
	{removals, []string{spellings}, nil, "removal lists headers in all their spellings; requests belong to policy"},
	{modelRoom, nil, nil, "modelusage reads bytes; rules, requests and settings belong to the rooms that use it"},
	{sourceRoom, nil, nil, "source names where values come from; it imports nothing"},
	{descriptor, []string{domain, "internal/algo"}, nil, "descriptors has what gateways send; rules belong to policy"},
	{unmetRoom, []string{sourceRoom}, nil, "condition has what policy explains and conditions use; it has no rules"},
	{inPolicy, []string{inPolicy, fetching, spellings, faultRoom, domain}, nil, "a room of policy works on texts and keys; rules and requests belong to policy"},
	{"policy", join(belowPolicy, ofRequests, []string{inPolicy, faultRoom, modelRoom}), moduleOne, "policy decides through a sluice.Store; matchers and protocols are interfaces here"},
	{"gate", []string{sourceRoom, "internal/retry", "bandwidth", "policy", domain}, moduleOne, "gate carries verdicts out; protocols belong to the edges"},
	{keyedRoom, []string{sourceRoom, "policy", domain}, nil, "keyed makes deciders of options; requests and protocols belong to the edges"},
	{denials, []string{"gate", "policy", domain}, nil, "denial puts verdicts into answers; requests belong to the edges"},
	{"httplimit", join(ofRequests, []string{keyedRoom, modelRoom, sharedRoom, denials, "gate", "bandwidth", "policy", "memory", domain}), join(moduleOne, []string{"internal/ratetest", "internal/modeltest"}), "httplimit translates to policy and gate; take a sluice.Store"},
	{"examples", moduleOne, nil, "an example uses the library only"},

	// Modules over the library.
	{"rueidisstore", []string{"redisstore", domain}, moduleOne, "an adapter gives its client to redisstore, and does no more"},
	{"goredisstore", []string{"redisstore", domain}, moduleOne, "an adapter gives its client to redisstore, and does no more"},
	{"grpclimit", []string{keyedRoom, denials, sourceRoom, spellings, descriptor, "httplimit", "gate", "policy", "memory", domain}, moduleOne, "grpclimit translates calls to policy and gate; take a sluice.Store"},
	{fileReader, []string{domain}, nil, "reader reads the settings of any room; give it what it needs as a tag or a method of the setting"},
	{conditions, join(ofRequests, []string{fileReader, "policy", domain}), moduleOne, "expression is a matcher of policy"},
	{fileRules, join(ofRequests, []string{fileReader, conditions, "policy", domain}), moduleOne, "rules has no setting of the server; put it into the room that it configures"},
	{envoyFiles, []string{fileReader, fileRules, "policy", domain}, moduleOne, "envoy makes rules of files"},
	{"policyfile", []string{fileReader, conditions, fileRules, "policy"}, moduleOne, "policyfile turns text into a policy; let app connect it with stores and edges"},

	// The server: a main of a few lines, two rooms that wire, and the edges.
	{"server/cmd/*", []string{wireCLI}, nil, "main only calls cli; put the code there"},
	{settings, []string{fileReader, conditions, fileRules, envoyFiles, edges, listening, accepting, saving, observing, secrets, smallRooms, "policy", domain}, join(moduleOne, ofRequests, []string{"policyfile"}), "config composes the settings of the other rooms, and opens nothing"},
	{wireCLI, []string{fileReader, fileRules, envoyFiles, descriptor, "policyfile", "httplimit", "policy", domain, settings, inWords, secrets, wireTypes, smallRooms, edges, accepting, saving, observing, wireApp, accessLogs, replays, suggests}, moduleOne, "cli reads flags and files, and runs app; the parts of a server belong to app"},
	{wireApp, []string{domain, overriding, peering, fileReader, removals, denials, "httplimit", "gate", "policy", settings, inWords, secrets, wireTypes, smallRooms, edges, reported, pipelines, listening, accepting, storing, observing, adding, decisions}, join(moduleOne, []string{"policyfile", envoyFiles, saving, "internal/modeltest"}), "app connects the rooms of the server; app is below cli"},
	{inWords, belowEdge, moduleOne, "describe puts rules and verdicts into words; it decides nothing"},
	{smallRooms, []string{fileReader}, nil, "a small room imports no other room; pass in what it needs"},
	{pages, nil, nil, "page draws what it gets; reports belong to the rooms that make them"},
	{replays, []string{accessLogs, pages, inWords, sourceRoom, removals, "httplimit", "gate", "memory", "policy", domain}, join(moduleOne, []string{observing}), "replay decides by a policy; configurations belong to cli"},
	{suggests, []string{accessLogs, replays, pages, inWords, "policy", domain}, moduleOne, "suggest fits limits to what replay reads; configurations belong to cli"},
	{accessLogs, []string{pages}, nil, "logs reads the logs of any server; policies and decisions belong to the rooms that use it"},
	{wireTypes, []string{domain}, nil, "wire is the JSON that servers write and commands read; it decides nothing"},
	{listening, []string{fileReader}, moduleOne, "listening is the same for all protocols; protocols belong to the edges"},
	{accepting, []string{fileReader, secrets, observing, smallRooms}, moduleOne, "accepting is the same for all protocols; protocols belong to the edges"},
	{stateFile, []string{smallRooms}, nil, "statefile imports no other room; local connects it with a store"},
	{overriding, []string{"redisstore", stateFile, wireTypes, observing, "policy", domain, smallRooms}, nil, "overrides keeps records in any store; edges take an interface, and let app connect it"},
	{peering, []string{"redisstore"}, nil, "peers carries questions and answers as bytes; app makes and reads them"},
	{saving, join(stores, []string{stateFile, observing, "policy", fileReader, "driver", domain, secrets, smallRooms}), join(moduleOne, []string{"policyfile"}), "the rooms of the store know no edges and no listeners; let app connect them"},
	{storing, []string{"memory", "hybrid", overriding, peering, saving, stateFile, observing, inWords, secrets, wireTypes, "policy", domain}, nil, "the store of a server imports no edges and no listeners; let app connect them"},
	{secrets, []string{fileReader}, nil, "secret reads files and variables that settings name"},
	{adding, []string{wireTypes}, []string{observing, "policy", domain}, "fleet adds numbers; app gets them from the servers"},
	{observing, []string{descriptor, denials, fileReader, secrets, "httplimit", "hybrid", "policy", domain, observing, smallRooms}, moduleOne, "what observes takes verdicts, texts and the figures of hybrid limits; it imports no other room that it observes"},
	{decisions, []string{descriptor, observing, wireTypes, "policy", domain}, nil, "observe connects its rooms; it gets verdicts from app"},
	{pipelines, []string{"driver", domain}, moduleOne, "pipeline decides through a sluice.Store; policies and protocols belong to the edges"},
	{reported, belowEdge, moduleOne, "gateway decides about the requests that gateways report; protocols belong to the edges"},
	{edgetest, join(belowEdge, []string{"memory", "policyfile", reported}), nil, "edgetest is for tests of edges; only tests import it"},
	{edges, join(belowEdge, []string{"internal/algo", fileReader, secrets, observing, inWords, wireTypes, listening, reported, pipelines, sharedRoom}), join(moduleOne, []string{"policyfile", edgetest, "internal/ratetest"}), "an edge imports no other edge; take an interface and let server/internal/app connect it"},

	// Checks may use everything. Only bench uses it, for its servers and processes.
	{"checks", join(moduleOne, stores, []string{"grpclimit", "policyfile", descriptor, oracleRoom, granttest, soakRoom, "internal/ratetest", "internal/modeltest"}), nil, "checks works on public packages"},
	{"bench", join(moduleOne, stores, []string{"checks"}), nil, "bench measures public packages"},
}

// storeRemedy replaces a row's remedy where code imports a store.
const storeRemedy = "only server/internal/store and its rooms choose a store; take a sluice.Store"

// checksRemedy replaces a row's remedy where code imports the checks.
const checksRemedy = "only bench imports checks; move what is shared to storetest"

func join(groups ...[]string) []string {
	var all []string
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}
