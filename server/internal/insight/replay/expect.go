package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/sluicehq/sluice/server/internal/insight/page"
	"github.com/tidwall/gjson"
)

// Expectation is a bound on a number of the report, such as newly_limited.clients<=5.
type Expectation struct {
	text, path, operator string
	number               float64
}

var expectation = regexp.MustCompile(`^\s*([^<>=!\s]+(?:#\([^)]*\)[^<>=!\s]*)?)\s*(<=|>=|==|=|<|>)\s*(-?[0-9][0-9_.]*)(%?)\s*$`)

// ParseExpectation reads an expectation. The error shows the form.
func ParseExpectation(text string) (Expectation, error) {
	found := expectation.FindStringSubmatch(text)
	if found == nil {
		return Expectation{}, fmt.Errorf("the expectation is %q; write a number of the report, a comparison and a bound, as in newly_limited.clients<=5", text)
	}
	n, err := strconv.ParseFloat(found[3], 64)
	if err != nil || found[4] != "" {
		return Expectation{}, fmt.Errorf("the bound of the expectation %q is not a number; write one as in newly_limited.clients<=5", text)
	}
	e := Expectation{text, found[1], found[2], n}
	if _, err := e.read(&Report{Check: &Check{}}); err != nil {
		return Expectation{}, err
	}
	return e, nil
}

// read returns the number of a report.
func (e *Expectation) read(r *Report) (float64, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	v := gjson.GetBytes(text, e.path)
	if !v.Exists() && len(r.Rules) == 0 && regexp.MustCompile(`^(rules|endpoints)\.#`).MatchString(e.path) {
		return 0, nil // it depends on the rules
	}
	if v.Type != gjson.Number {
		return 0, fmt.Errorf("the report has no number %s; see what sluice replay --json writes, such as newly_limited.clients or requests.limited", page.Inert(e.path))
	}
	return v.Num, nil
}

// Check returns an error if the report is not as expected.
func (e *Expectation) Check(r *Report) error {
	n, err := e.read(r)
	if err != nil {
		return err
	}
	ok := map[string]bool{"<=": n <= e.number, ">=": n >= e.number, "<": n < e.number, ">": n > e.number, "=": n == e.number, "==": n == e.number}[e.operator]
	if !ok {
		return fmt.Errorf("expected %s, and it is %v", e.text, n)
	}
	return nil
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
