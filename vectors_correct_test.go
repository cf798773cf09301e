package sluice_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// corrected holds the right results of vectors whose own are not, as their notes or the rule of
// their systems tell; null is not compared. A result of "×n" stands for n more like the one
// before it.
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

// correct returns the right results of a vector whose own are not, or nil.
func correct(t *testing.T, v *vector) []any {
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
		times, more := strings.CutPrefix(word, "×")
		if !more {
			all = append(all, r)
			continue
		}
		for range int(fields{"n": times}.n()) {
			all = append(all, all[len(all)-1])
		}
	}
	if len(all) != len(v.Steps) {
		t.Fatalf("%d results for %d steps", len(all), len(v.Steps))
	}
	return all
}
