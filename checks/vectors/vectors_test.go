package vectors

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// vector is one that is told in words: what its config and note say is in the function that runs it.
type vector struct {
	ID       string          `json:"id"`
	System   string          `json:"system"`
	Check    string          `json:"check"`
	Config   config          `json:"config"`
	Requests json.RawMessage `json:"requests"`
	Allowed  json.RawMessage `json:"allowed"`
	EveryNS  [][2]any        `json:"every_ns_to_limit"` //nolint:tagliatelle // the format's
}

type config map[string]any

func (c config) text(name string) string { s, _ := c[name].(string); return s }

func (c config) count(name string) int64 { n, _ := c[name].(float64); return int64(n) }

// script is how a vector is run.
type script struct {
	run  func(w *world, v *vector)
	wall bool // on the clocks of the stores, not the test's
}

// scripts run the vectors by name; those of think-throttle's drivers are run by their fields,
// whatever their names.
var scripts = map[string]script{
	"GV-18":        {run: guavaParameters},
	"GV-20":        {run: guavaWarmUp},
	"NG-04":        {run: nginxZones},
	"NG-05":        {run: nginxDryRun},
	"NG-06":        {run: nginxConn},
	"RQ-01":        {run: serialCalls},
	"RQ-05":        {run: foreignValue},
	"RQ-12-defect": {run: withinAMillisecond},
	"RR-05":        {run: serialCalls},
	"RR-09":        {run: redisRefused},
	"RR-12-defect": {run: banOfHalfASecond},
	"RW-07":        {run: rollingOptions},
	"RW-13":        {run: rollingShared},
	"TC-04":        {run: combined},
	"TC-05":        {run: combined},
	"TM-01":        {run: throttled(throttle{requests: []request{{n: 200}}, want: []int{100}})},
	"TM-02":        {run: throttled(throttle{requests: []request{{n: 200, method: "POST"}}, want: []int{200}})},
	"TM-03":        {run: throttled(throttle{requests: []request{{n: 200}}, want: []int{200}})},
	"TM-04":        {run: throttled(throttle{requests: []request{{n: 200}}, want: []int{5}})},
	"TM-05":        {run: throttleRoutes},
	"TM-06":        {run: throttleGlobally},
	"TM-07":        {run: throttlePaths},
	"TM-08":        {run: throttleForSeconds},
	"TM-09":        {run: throttleOwnStore},
	"TM-10":        {run: throttleNoStore},
	"TM-11":        {run: throttled(throttle{requests: []request{{n: 200}, {n: 200, method: "POST"}}, want: []int{100, 200}})},
	"TM-12":        {run: throttled(throttle{rate: "10/m", requests: []request{{n: 200}}, want: []int{10}})},
	"TM-13":        {run: throttled(throttle{rate: "100/m", requests: []request{{n: 200}}, want: []int{100}})},
	"TM-14":        {run: throttled(throttle{rate: "1/m", requests: []request{{n: 200}}, want: []int{1}})},
	"TM-15":        {run: throttleCoupons},
	"TM-16":        {run: throttleMobiles},
	"XT-19":        {run: waitSimple, wall: true},
	"XT-20":        {run: waitCancel, wall: true},
	"XT-21":        {run: waitTimeout, wall: true},
	"XT-27":        {run: simultaneous},
	"XT-28":        {run: everyInterval},
}

const cache = "a cache that evicts by age or number forgives what a key has used; TestFloodForgetsNoDebt asserts what holds instead"

// unrun are the vectors that are not run, each with the reason.
var unrun = map[string]string{
	"LR-02": cache,
	"LR-05": cache,
	"LR-06": cache,
	"LR-07": cache,
	"LR-08": cache,
	"LR-09": "states are kept until they equal a fresh one: TestOnlyFreshStatesAreForgotten and TestSetsLiveUntilFresh assert it of both stores",
	"XT-22": "an infinite rate is no limit; NewLimit refuses it, which GV-18 and XT-28 assert",
}

// TestDescribedVectors runs the vectors that have no steps, in memory and over Redis.
// SLUICE_VECTORS names another file of the same format, of whose described vectors it runs
// those that it knows.
func TestDescribedVectors(t *testing.T) {
	file, own := os.Getenv("SLUICE_VECTORS"), false
	if file == "" {
		file, own = "../../testdata/vectors/source-systems.json", true
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Vectors []json.RawMessage `json:"vectors"`
	}
	if err := json.Unmarshal(text, &all); err != nil || len(all.Vectors) == 0 {
		t.Fatalf("%s holds %d vectors: %v", file, len(all.Vectors), err)
	}
	ws := newWorlds(t)
	counts, left := map[string]int{}, maps.Clone(scripts)
	for _, raw := range all.Vectors {
		v := &vector{}
		if err := json.Unmarshal(raw, v); err != nil {
			t.Fatalf("%.80s: %v", raw, err)
		}
		s, known := scripts[v.ID]
		if !known && v.Check == "none" && v.System == "think_throttle_v3" && v.Config.text("driver") != "" {
			s, known = script{run: throttleDriver}, true
		}
		delete(left, v.ID)
		switch {
		case known:
			counts["run"]++
			t.Run(v.ID, func(t *testing.T) { ws.run(t, v.ID, s.wall, func(w *world) { s.run(w, v) }) })
		case v.Check != "none":
			// Its steps are run beside the library.
		case unrun[v.ID] != "":
			counts["not run, for a reason"]++
			t.Logf("%s is not run: %s", v.ID, unrun[v.ID])
		case own:
			t.Errorf("%s is described, and neither run nor listed with a reason", v.ID)
		default:
			counts["unknown"]++
			t.Logf("%s is described, and unknown", v.ID)
		}
	}
	t.Logf("%s: %v", file, counts)
	if own && len(left) > 0 {
		t.Errorf("there are no vectors %v", slices.Sorted(maps.Keys(left)))
	}
}

// bounds reads how many are to be allowed: a number, [least, most], or "least..most".
func (v *vector) bounds() (least, most int, err error) {
	text := strings.NewReplacer("[", "", "]", "", `"`, "", "..", ",", " ", "").Replace(string(v.Allowed))
	if n, _ := fmt.Sscanf(text, "%d,%d", &least, &most); n == 2 {
		return least, most, nil
	}
	_, err = fmt.Sscanf(text, "%d", &least)
	return least, least, err
}
