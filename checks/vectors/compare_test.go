package vectors

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// oneOf is a result for which systems have several words.
type oneOf []string

// matches compares a result with the expected one. nil matches every result.
func (w *world) matches(got, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case float64:
		n, ok := number(got)
		return ok && math.Abs(n-want) <= w.tolerance
	case string:
		if words, ok := got.(oneOf); ok {
			return slices.Contains(words, want)
		}
		return got == want
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !w.matches(list[i], want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		all, ok := got.(fields)
		for name := range want {
			ok = ok && w.matches(all[name], want[name])
		}
		return ok
	default:
		return got == want
	}
}

// alsoMatches compares the further results of a step with the step's fields.
func (w *world) alsoMatches(s fields) bool {
	if want, ok := s["tokens_before"]; ok && !w.matches(w.also["tokens_before"], want) {
		return false
	}
	// nginx counts whole milliseconds and rounds down.
	want, given := number(s["delay_ms"])
	got, _ := number(w.also["delay_ms"])
	return !given || w.matches(got, want) || math.Abs(got-want) < 1
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// corrected holds the right results of the vectors whose own results are wrong. Each follows from
// the vector's note or from its system's rule. null is not compared. "×n" repeats the result before
// it n times.
var corrected = map[string]string{
	"CT-07-defect": `[1, 0, "rejected", "rejected", 1, 2, 1, 2, 1]`,
	"FW-01-defect": `[true, true, true, false, true, true]`,
	"NG-09":        `[200, 200, 503, 503]`,
	"RQ-07": `[{"delay": 0, "excess": 0}, true, {"delay": 0, "excess": 0}, true, {"delay": 0, "excess": 0}, true,
		{"delay": 0, "excess": 0}, true, {"delay": 0, "excess": 0}, true]`,
	"RQ-10-defect": `[{"delay": 0, "excess": 0}, "rejected", "rejected"]`,
	"RR-11-defect": `["ok", "ok", "rejected", "rejected", "rejected"]`,
	"RR-13-defect": `["ok", "×5", "rejected", "ok", "rejected", "×5"]`,
	"SW-03-defect": `[100, false, false]`,
	"TB-04-defect": `[1, 1, 1, 0, 0, 1, 1, 1]`,
	"TB-05-defect": `[1, "×11"]`,
	"TB-06-defect": `[1, 0, "×5", 1, 0, "×2"]`,
	"TB-09-defect": `["error", 3]`,
	"TB-10-defect": `[1, 0, 0]`,
	"TD-12-defect": `[{"allow": true}, {"allow": false, "wait": 60}, {"allow": false, "wait": 59}, {"allow": false, "wait": 1}]`,
	"TD-13-defect": `[true, true, false, true, true, false, false]`,
	"TD-17-defect": `[true, true, true, false, "×3"]`,
	"TD-18-defect": `[true, "×16"]`,
	"TH-01-defect": `[{"status": 200, "X-Rate-Limit-Remaining": 1, "X-Rate-Limit-Reset": 1010},
		{"status": 200, "X-Rate-Limit-Remaining": 0, "X-Rate-Limit-Reset": 1010}, {"status": 429, "Retry-After": 5},
		{"status": 200, "X-Rate-Limit-Remaining": 0, "X-Rate-Limit-Reset": 1014}, {"status": 429, "Retry-After": 3}]`,
	"TH-02-defect": `[500, 429, "×5"]`,
	"TP-01-defect": `[true, "×9", false, true, "×5"]`,
	"TR-11-defect": `["error"]`,
	"TR-12-defect": `["error"]`,
	"TR-13-defect": `["error"]`,
	"TR-14-defect": `["error"]`,
	"XT-04-defect": `[true, "×2", false, "×36"]`,
}

// rightResults returns the right results of a vector whose own results are wrong, or nil.
func rightResults(t *testing.T, v *vector) []any {
	t.Helper()
	text := corrected[v.ID]
	if text == "" {
		return nil
	}
	var short, all []any
	if err := json.Unmarshal([]byte(text), &short); err != nil {
		t.Fatal(err)
	}
	for _, r := range short {
		word, _ := r.(string)
		times, repeats := strings.CutPrefix(word, "×")
		if !repeats {
			all = append(all, r)
			continue
		}
		for range (fields{"n": times}).n() {
			all = append(all, all[len(all)-1])
		}
	}
	if len(all) != len(v.Steps) {
		t.Fatalf("%d results for %d steps", len(all), len(v.Steps))
	}
	return all
}
