package sluice_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

// vector is one conformance vector: what a system that Sluice takes over answers to
// a row of calls. Key "format" of the file explains the fields.
type vector struct {
	ID     string   `json:"id"`
	System string   `json:"system"`
	TUnit  string   `json:"t_unit"`
	Check  string   `json:"check"`
	Config fields   `json:"config"`
	Steps  []fields `json:"steps"`

	StepMS     float64    `json:"step_ms"`
	DurationMS float64    `json:"duration_ms"`
	Allowed    [2]float64 `json:"-"`
}

// defect reports whether the vector shows a fault that must not be matched.
func (v *vector) defect() bool { return strings.HasSuffix(v.ID, "-defect") }

// stepper makes one call and returns its result, in the terms of the system.
type stepper func(s fields) (any, error)

// adapters set up each system's limiter over the public API.
var adapters = map[string]func(*world) (stepper, error){
	"fixed_window":                 fixedWindow,
	"guava_smooth":                 guavaSmooth,
	"nginx_limit_req":              nginxReq,
	"redis_leaky_ban":              redisLeaky,
	"redis_lua_token_bucket":       redisBucket,
	"resty_limit_conn":             restyConn,
	"resty_limit_count":            restyCount,
	"resty_limit_req":              restyReq,
	"resty_limit_traffic":          restyTraffic,
	"rolling_window":               rollingWindow,
	"sub_window_counter":           subWindow,
	"think_throttle_v1_history":    throttleHistory,
	"think_throttle_v3":            throttleDriver,
	"think_throttle_v3_rate_parse": throttleRate,
	"token_pseudo":                 tokenPseudo,
	"x_time_rate":                  xTimeRate,
}

// Why a vector, or the rest of it, is not answered as its system answers.
const (
	noSuchRate  = "no such rate: an infinite rate is no limit, and none or less than one unit in 100 years admits nothing; NewLimit refuses both"
	clockRewind = "x/time/rate rewinds its clock with the caller's and mints tokens; from the first step back on, the law of the bucket is asserted instead"
	millirate   = "nginx truncates a rate to thousandths of a request a second; exact rates admit when the time has come"
	giveBack    = "limit.req keeps the record of a call that was given back; ours goes back to the state before, which is asserted instead"
	noCache     = "a cache that evicts by age forgives what a key has used; TestFloodForgetsNoDebt asserts the rule instead: only what equals a fresh state is forgotten"
	noSometimes = "a scheduler of calls, not a limit: out of scope"
)

// outside are systems that have no counterpart.
var outside = map[string]string{
	"lru":         noCache,
	"lru_limiter": noCache,
	"sometimes":   noSometimes,
}

// listed are the vectors of the file at hand that are not answered as their system does.
var listed = map[string]string{
	"GV-13": noSuchRate,
	"GV-19": noSuchRate,
	"LR-04": noCache,
	"NG-09": millirate,
	"RQ-07": giveBack,
	"SM-01": noSometimes,
	"SM-02": noSometimes,
	"SM-03": noSometimes,
	"SM-05": noSometimes,
	"XT-03": clockRewind,
	"XT-13": clockRewind,
	"XT-16": clockRewind,
	"XT-23": noSuchRate,
	"XT-25": noSuchRate,
}

// TestVectors answers the vectors of the source systems. SLUICE_VECTORS names another
// file of the same format.
func TestVectors(t *testing.T) {
	file := os.Getenv("SLUICE_VECTORS")
	own := file == ""
	if own {
		file = "testdata/vectors/source-systems.json"
	}
	excused := map[string]string{}
	counts := map[string]int{}
	for _, v := range readVectors(t, file) {
		if v.Check == "none" {
			counts["described, see checks/vectors"]++
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			switch reason := runVector(t, v); {
			case reason != "":
				excused[v.ID] = reason
				counts["listed"]++
				t.Log("listed: " + reason)
			case v.defect():
				counts["defects that differ"]++
			default:
				counts["answered alike"]++
			}
		})
	}
	t.Logf("%s: %v", file, counts)
	if own && !maps.Equal(excused, listed) {
		t.Errorf("listed are %v, want %v", slices.Sorted(maps.Keys(excused)), slices.Sorted(maps.Keys(listed)))
	}
}

func readVectors(t *testing.T, file string) []*vector {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Vectors []json.RawMessage `json:"vectors"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	vs := make([]*vector, len(all.Vectors))
	for i, raw := range all.Vectors {
		vs[i] = &vector{}
		if err := json.Unmarshal(raw, vs[i]); err != nil {
			t.Fatalf("vector %d: %v", i, err)
		}
		if vs[i].Check == "qps" {
			// "allowed" has other forms in vectors that are described only.
			bounds := struct{ Allowed *[2]float64 }{&vs[i].Allowed}
			if err := json.Unmarshal(raw, &bounds); err != nil {
				t.Fatalf("vector %s: %v", vs[i].ID, err)
			}
		}
	}
	if len(vs) == 0 {
		t.Fatalf("%s holds no vectors", file)
	}
	return vs
}

// runVector answers one vector and returns why it is answered otherwise, empty if it
// is not.
func runVector(t *testing.T, v *vector) (reason string) {
	t.Helper()
	if reason := outside[v.System]; reason != "" {
		return reason
	}
	adapter := adapters[v.System]
	if adapter == nil {
		t.Fatalf("system %q has no adapter", v.System)
	}
	w := newWorld(t, v)
	step, err := adapter(w)
	if err == nil && v.Check == "qps" {
		checkPace(t, w, step)
		return ""
	}
	right := correct(t, v)
	differ, other := 0, 0
	for i, s := range v.Steps {
		got := any(nil)
		if err == nil {
			w.advance(s)
			got, err = step(s)
		}
		if err != nil {
			if got = w.refused(err); got == nil {
				return noSuchRate
			}
			if w.broken {
				differ++
				break
			}
			err = nil
		}
		if i < len(right) && !w.matches(got, right[i]) {
			t.Errorf("step %d %v: got %v, right is %v", i, s, got, right[i])
		}
		if w.matches(got, s["expect"]) && w.alsoMatches(s) {
			continue
		}
		switch {
		case v.defect():
			differ++
		case w.excuse != "":
			other++
		default:
			t.Errorf("step %d %v: got %v %v", i, s, got, w.also)
		}
	}
	for _, law := range w.laws {
		law()
	}
	if v.defect() && differ == 0 {
		t.Error("the defect is reproduced")
	}
	if other > 0 {
		return w.excuse
	}
	return ""
}

// refused returns what a refusal is in a vector's terms; nil if it is of a rate
// that a sound vector asks for. A vector whose limit is refused is broken.
func (w *world) refused(err error) any {
	w.t.Helper()
	var limit *sluice.LimitError
	var request *sluice.RequestError
	switch {
	case errors.As(err, &request):
		return "error"
	case errors.As(err, &limit) && w.v.defect():
		w.broken = true
		return "error"
	case errors.As(err, &limit) && limit.Field == "Rate":
		return nil
	}
	w.t.Fatal(err)
	return nil
}

// checkPace asks at a steady pace, and compares how many pass.
func checkPace(t *testing.T, w *world, step stepper) {
	t.Helper()
	passed := 0.0
	for at := 0.0; at < w.v.DurationMS; at += w.v.StepMS {
		w.now = int64(math.Round(1000 * at))
		got, err := step(fields{"op": "allow", "n": 1.0})
		if err != nil {
			t.Fatal(err)
		}
		if got == true {
			passed++
		}
	}
	if passed < w.v.Allowed[0] || passed > w.v.Allowed[1] {
		t.Errorf("%v pass, want %v", passed, w.v.Allowed)
	}
}
