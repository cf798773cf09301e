package vectors

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A vector is one conformance vector. It holds the calls to a system that Sluice replaces, and the
// results of that system. Key "format" of the file explains the fields.
type vector struct {
	ID     string   `json:"id"`
	System string   `json:"system"`
	TUnit  string   `json:"t_unit"`
	Check  string   `json:"check"`
	Config fields   `json:"config"`
	Steps  []fields `json:"steps"`

	// A pace is one request every StepMS for DurationMS.
	StepMS     float64 `json:"step_ms"`
	DurationMS float64 `json:"duration_ms"`

	Requests json.RawMessage `json:"requests"`
	Allowed  json.RawMessage `json:"allowed"`
	EveryNS  [][2]any        `json:"every_ns_to_limit"` //nolint:tagliatelle // the format's
}

// defect reports whether the vector shows a fault, whose results must not be matched.
func (v *vector) defect() bool { return strings.HasSuffix(v.ID, "-defect") }

// described reports whether the vector has no steps: its note and config describe in words what
// happens.
func (v *vector) described() bool { return v.Check == "none" }

// bounds returns the fewest and the most requests that may pass. The vector writes them as a
// number, [fewest, most], or "fewest..most".
func (v *vector) bounds() (fewest, most float64, err error) {
	text := strings.NewReplacer("[", "", "]", "", `"`, "", "..", ",", " ", "").Replace(string(v.Allowed))
	low, high, two := strings.Cut(text, ",")
	if fewest, err = strconv.ParseFloat(low, 64); err != nil || !two {
		return fewest, fewest, err
	}
	most, err = strconv.ParseFloat(high, 64)
	return fewest, most, err
}

// A replay is one way to replay a vector.
type replay struct {
	name      string
	run       func(w *world)
	start     int64 // the first time of the clock, in microseconds
	realClock bool  // the store's own clock runs
}

// epoch is when the clock of a described vector starts, in microseconds.
const epoch = 1_700_000_000_000_000

// scripts replay described vectors by their ids.
var scripts = map[string]func(w *world){
	"GV-18":        guavaParameters,
	"GV-20":        guavaWarmUpTime,
	"NG-04":        nginxZones,
	"NG-05":        nginxDryRun,
	"NG-06":        nginxConn,
	"RQ-01":        serialCalls,
	"RQ-05":        foreignValue,
	"RQ-12-defect": withinAMillisecond,
	"RR-05":        serialCalls,
	"RR-09":        redisRefused,
	"RR-12-defect": banOfHalfASecond,
	"RW-07":        rollingOptions,
	"RW-13":        rollingShared,
	"TC-04":        combined,
	"TC-05":        combined,
	"TM-01":        throttled(throttle{requests: []request{{n: 200}}, want: []int{100}}),
	"TM-02":        throttled(throttle{requests: []request{{n: 200, method: "POST"}}, want: []int{200}}),
	"TM-03":        throttled(throttle{requests: []request{{n: 200}}, want: []int{200}}),
	"TM-04":        throttled(throttle{requests: []request{{n: 200}}, want: []int{5}}),
	"TM-05":        throttleRoutes,
	"TM-06":        throttleGlobally,
	"TM-07":        throttlePaths,
	"TM-08":        throttleForSeconds,
	"TM-09":        throttleOwnStore,
	"TM-10":        throttleNoStore,
	"TM-11":        throttled(throttle{requests: []request{{n: 200}, {n: 200, method: "POST"}}, want: []int{100, 200}}),
	"TM-12":        throttled(throttle{rate: "10/m", requests: []request{{n: 200}}, want: []int{10}}),
	"TM-13":        throttled(throttle{rate: "100/m", requests: []request{{n: 200}}, want: []int{100}}),
	"TM-14":        throttled(throttle{rate: "1/m", requests: []request{{n: 200}}, want: []int{1}}),
	"TM-15":        throttleCoupons,
	"TM-16":        throttleMobiles,
	"XT-19":        waitSimple,
	"XT-20":        waitCancel,
	"XT-21":        waitTimeout,
	"XT-27":        simultaneous,
	"XT-28":        everyInterval,
}

// realClocks are the scripts that measure how long a call takes.
var realClocks = map[string]bool{"XT-19": true, "XT-20": true, "XT-21": true}

// script returns the replay of a described vector. The vectors of think-throttle's drivers are
// recognized by their fields, whatever their ids.
func (v *vector) script() (replay, bool) {
	r := replay{name: "script", run: scripts[v.ID], start: epoch, realClock: realClocks[v.ID]}
	if r.run == nil && v.described() && v.System == "think_throttle_v3" && v.Config.text("driver") != "" {
		r.run = throttleDriver
	}
	return r, r.run != nil
}

// The reasons why a vector, or the rest of it, is not answered as its system answers it.
const (
	noSuchRate  = "no such rate: an infinite rate limits nothing, and zero or less than one unit in 100 years admits nothing; NewLimit refuses both"
	noInfinite  = "an infinite rate limits nothing; NewLimit refuses it, which GV-18 and XT-28 assert"
	clockRewind = "x/time/rate turns its clock back with the caller's and mints tokens; from the first step back on, the bound of the bucket is asserted instead"
	sameMoment  = "after SetLimit, x/time/rate lets a new reservation act at the moment of an earlier one: three units at once from a bucket of two; Sluice keeps their order, and the bound of the bucket is asserted instead"
	millirate   = "nginx truncates a rate to thousandths of a request per second; exact rates admit on time"
	giveBack    = "limit.req keeps the time of a call that was given back; Sluice returns to the state before the call, which is asserted instead"
	noCache     = "a cache that evicts by age or number forgives what a key has used; TestFloodForgetsNoDebt asserts the rule instead: only a state that equals a fresh one is forgotten"
	noExpiry    = "a state is kept until it equals a fresh one: TestOnlyFreshStatesAreForgotten and TestSetsLiveUntilFresh assert it of both stores"
	noScheduler = "a scheduler of calls, not a limit: out of scope"
)

// outside are the systems that have no counterpart in Sluice.
var outside = map[string]string{
	"lru":         noCache,
	"lru_limiter": noCache,
	"sometimes":   noScheduler,
}

// listed are the vectors of our file that are not answered as their system answers them.
var listed = map[string]string{
	"GV-13": noSuchRate,
	"GV-19": noSuchRate,
	"LR-02": noCache,
	"LR-04": noCache,
	"LR-05": noCache,
	"LR-06": noCache,
	"LR-07": noCache,
	"LR-08": noCache,
	"LR-09": noExpiry,
	"NG-09": millirate,
	"RQ-07": giveBack,
	"SM-01": noScheduler,
	"SM-02": noScheduler,
	"SM-03": noScheduler,
	"SM-05": noScheduler,
	"XT-03": clockRewind,
	"XT-13": clockRewind,
	"XT-15": sameMoment,
	"XT-16": clockRewind,
	"XT-22": noInfinite,
	"XT-23": noSuchRate,
	"XT-25": noSuchRate,
}

// TestVectorsAreReplayed replays the vectors of our file, or of the file that SLUICE_VECTORS names. Every vector
// of our file is replayed, or listed with a reason.
func TestVectorsAreReplayed(t *testing.T) {
	file, own := vectorFile(t)
	ws := newWorlds(t)
	differ, counts := map[string]string{}, map[string]int{}
	left := maps.Clone(scripts)
	for _, v := range readVectors(t, file) {
		delete(left, v.ID)
		t.Run(v.ID, func(t *testing.T) {
			class, reason := ws.replay(t, v)
			if counts[class]++; reason != "" {
				differ[v.ID] = reason
				reason = ": " + reason
			}
			t.Log(class + reason)
			if own && class == isUnknown {
				t.Error("it is described, and it has neither a script nor a reason")
			}
		})
	}
	t.Logf("%s: %v", file, counts)
	if own && !maps.Equal(differ, listed) {
		t.Errorf("listed are %v, want %v", slices.Sorted(maps.Keys(differ)), slices.Sorted(maps.Keys(listed)))
	}
	if own && len(left) > 0 {
		t.Errorf("the scripts of %v have no vector", slices.Sorted(maps.Keys(left)))
	}
}

// The classes of vectors.
const (
	isAlike      = "answered alike"
	isDefect     = "a defect, answered right"
	isDescribed  = "described, and replayed by a script"
	isBoth       = "answered alike, and replayed by a script"
	isListed     = "answered otherwise, for a reason"
	isUnreplayed = "not replayed, for a reason"
	isUnknown    = "described, and unknown"
)

// replay replays a vector by its steps, its script, or both. It returns the vector's class, and the
// reason if the vector is not answered as its system answers it.
func (ws *worlds) replay(t *testing.T, v *vector) (class, reason string) {
	t.Helper()
	script, known := v.script()
	if known {
		ws.run(t, v, script)
	}
	switch reason = outside[v.System]; {
	case v.described() && known:
		return isDescribed, ""
	case reason != "" || v.described() && listed[v.ID] != "":
		if v.described() && listed[v.ID] != "" {
			reason = listed[v.ID]
		}
		return isUnreplayed, reason
	case v.described():
		return isUnknown, ""
	}
	reasons := map[string]bool{}
	start := int64(0)
	if v.TUnit == "relative" {
		start = 1_000_000_000_000
	}
	ws.run(t, v, replay{name: "steps", start: start, run: func(w *world) {
		reason = w.replaySteps()
		reasons[reason] = true
	}})
	switch {
	case len(reasons) > 1:
		t.Errorf("the stores differ for %d reasons: %v", len(reasons), reasons)
	case reason != "":
		return isListed, reason
	case v.defect():
		return isDefect, ""
	case known:
		return isBoth, ""
	}
	return isAlike, ""
}

// vectorFile returns the file of vectors, and whether it is ours. A relative path in SLUICE_VECTORS
// starts in this folder or in one above it.
func vectorFile(t *testing.T) (file string, own bool) {
	t.Helper()
	if file = os.Getenv("SLUICE_VECTORS"); file == "" {
		return "../../testdata/vectors/source-systems.json", true
	}
	for _, dir := range []string{"", "..", "../.."} {
		if found := filepath.Join(dir, file); !filepath.IsAbs(file) {
			if _, err := os.Stat(found); err == nil {
				return found, false
			}
		}
	}
	return file, false
}

func readVectors(t *testing.T, file string) []*vector {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Vectors []*vector `json:"vectors"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("the vectors of %s cannot be read: %v", file, err)
	}
	if len(all.Vectors) == 0 {
		t.Fatalf("%s holds no vectors", file)
	}
	return all.Vectors
}
