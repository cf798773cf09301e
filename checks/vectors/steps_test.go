package vectors

import (
	"errors"
	"math"

	"github.com/sluicehq/sluice"
)

// A stepper makes one call and returns its result in the words of its system.
type stepper func(s fields) (any, error)

// systems set up each system's limiter over the public API.
var systems = map[string]func(*world) (stepper, error){
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
	"think_throttle_v3":            throttleSteps,
	"think_throttle_v3_rate_parse": throttleRate,
	"token_pseudo":                 tokenPseudo,
	"x_time_rate":                  xTimeRate,
}

// replaySteps makes the calls of a vector and compares their results. It returns the reason why the
// vector is answered otherwise, or "".
func (w *world) replaySteps() (reason string) {
	w.Helper()
	system := systems[w.v.System]
	if system == nil {
		w.Fatalf("unknown system: %q", w.v.System)
	}
	step, err := system(w)
	if err == nil && w.v.Check == "qps" {
		w.keepPace(step)
		return ""
	}
	right := rightResults(w.T, w.v)
	defects, excused := 0, 0
	for i, s := range w.v.Steps {
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
				defects++
				break
			}
			err = nil
		}
		if i < len(right) && !w.matches(got, right[i]) {
			w.Errorf("step %d %v: got %v, right is %v", i, s, got, right[i])
		}
		if w.matches(got, s["expect"]) && w.alsoMatches(s) {
			continue
		}
		switch {
		case w.v.defect():
			defects++
		case w.excuse != "":
			excused++
		default:
			w.Errorf("step %d %v: got %v %v", i, s, got, w.also)
		}
	}
	for _, law := range w.laws {
		law()
	}
	if w.v.defect() && defects == 0 {
		w.Error("the defect is reproduced")
	}
	if excused > 0 {
		return w.excuse
	}
	return ""
}

// refused returns the result of a call that failed, in the words of vectors. It returns nil for a
// rate that is refused although the vector is not a defect. A defect whose limit is refused is broken.
func (w *world) refused(err error) any {
	w.Helper()
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
	w.Fatal(err)
	return nil
}

// keepPace sends requests at a steady pace and compares how many pass.
func (w *world) keepPace(step stepper) {
	w.Helper()
	fewest, most, err := w.v.bounds()
	if err != nil {
		w.Fatalf("allowed is %s: %v", w.v.Allowed, err)
	}
	passed := 0.0
	for at := 0.0; at < w.v.DurationMS; at += w.v.StepMS {
		w.clock.Store(int64(math.Round(1000 * at)))
		got, err := step(fields{"op": "allow", "n": 1.0})
		if err != nil {
			w.Fatal(err)
		}
		if got == true {
			passed++
		}
	}
	if passed < fewest || passed > most {
		w.Errorf("%v pass, want %v to %v", passed, fewest, most)
	}
}
