package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
	if _, err := e.read(&Report{Check: &Check{}}); err != nil && !e.list() {
		return Expectation{}, err
	}
	return e, nil
}

// list reports whether the number is of a list, so that only a report has it.
func (e *Expectation) list() bool {
	member, of, _ := strings.Cut(e.path, ".")
	return of != "" && slices.Contains([]string{"rules", "endpoints", "matrix", "shares", "limited_clients", "unevaluated", "unevaluated_before"}, member)
}

// read returns the number of a report.
func (e *Expectation) read(r *Report) (float64, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	v := gjson.GetBytes(text, e.path)
	if v.Type != gjson.Number {
		return 0, fmt.Errorf("the report has no number %s; see what sluice replay --json writes, such as newly_limited.clients or requests.limited", page.Inert(e.path))
	}
	return v.Num, nil
}

// CheckAll returns an error if the report is not as expected, or if it cannot show that: because it has no request or no
// client, or because rules are not evaluated whose number no expectation bounds.
func CheckAll(r *Report, all []Expectation) error {
	if len(all) == 0 {
		return nil
	}
	if r.Requests.Total == 0 {
		return errors.New("no request was replayed, so no expectation holds; look at the log, --since and --until")
	}
	var errs []error
	for _, left := range [...]struct {
		list, policy string
		rules        []Unevaluated
	}{{"unevaluated.#", r.Policy, r.Unevaluated}, {"unevaluated_before.#", r.Against, r.UnevaluatedBefore}} {
		if n := len(left.rules); n > 0 && !slices.ContainsFunc(all, func(e Expectation) bool { return e.path == left.list }) {
			errs = append(errs, fmt.Errorf("%s of %s is not evaluated, so the replay does not know whom it limits; give what the log lacks, or allow it with --expect '%s<=%d'",
				page.Inert(left.rules[0].Name), page.Inert(left.policy), left.list, n))
		}
	}
	for _, e := range all {
		if strings.Contains(e.path, "client") && r.Clients.Total == 0 {
			errs = append(errs, fmt.Errorf("the log names no client, so %s is not known; give --client", e.text))
			continue
		}
		errs = append(errs, e.Check(r))
	}
	return errors.Join(errs...)
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
