package rules

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// Overrides are other numbers for some keys of a rule: a list, the name of a file, or both.
//
// The file is a table of comma-separated values. Its first line names the columns: key, once for each part
// of the rule's key, and then numbers such as rate and burst. If the rule has several
// limits, the limit is in the name of the column: 2.rate for the second one, or daily.rate for
// the limit named daily. An empty field leaves the rule's own number. The column plan names a plan, in place of numbers.
type Overrides struct {
	// File is the file of the table. Its path is relative to this file. Default: none.
	File string `yaml:"file" path:"included"`
	// List holds overrides. Default: none.
	List []Override `yaml:"list"`
}

// Short implements [reader.Shorthand].
func (*Overrides) Short(list bool) string {
	if list {
		return "list"
	}
	return "file"
}

// Override holds the numbers of one key, instead of the rule's. Give limit or limits, or a plan.
type Override struct {
	// Key is the value of each part of the rule's key. Required.
	Key []string `yaml:"key"`
	// Limit is for the only limit of the rule.
	Limit *Numbers `yaml:"limit"`
	// Limits are for all limits of the rule, in their order. {} leaves a limit as it is.
	Limits []Numbers `yaml:"limits"`
	// Plan names a plan, in place of numbers. Default: none.
	Plan string `yaml:"plan"`
}

// Numbers are the numbers of a limit that can be overridden. The rule's limit has the
// defaults.
type Numbers struct {
	// Rate is a count per period.
	Rate sluice.Rate `yaml:"rate"`
	// Burst is the size of a token bucket.
	Burst int64 `yaml:"burst" unit:"units"`
	// Debt is how many units a token bucket may owe.
	Debt int64 `yaml:"debt" unit:"units"`
	// WarmUp is the time in which an idle token bucket reaches its full rate.
	WarmUp time.Duration `yaml:"warm_up"`
	// Queue is how many units may wait for their turn, in a leaky bucket or a concurrency limit.
	Queue int64 `yaml:"queue" unit:"units"`
	// Undelayed is how many units in the queue of a leaky bucket pass without delay.
	Undelayed int64 `yaml:"undelayed" unit:"units"`
	// MinInterval is the least time between two requests in a sliding log.
	MinInterval time.Duration `yaml:"min_interval"`
	// Max is how many units may be in flight at once.
	Max int64 `yaml:"max" unit:"units"`
}

// over returns a limit with these numbers instead of its own. given reports which numbers the file has. If the rate or
// max changes, stay has the units that the limit names and these numbers do not.
func (n *Numbers) over(of Limit, given func(name string) bool) (l Limit, stay []string) {
	l = of
	from, to := reflect.ValueOf(n).Elem(), reflect.ValueOf(&l).Elem()
	for i, name := range reader.Accepted(from.Type()) {
		v, own := from.Field(i), to.FieldByName(from.Type().Field(i).Name)
		if !v.IsZero() || given(name) {
			own.Set(v)
		} else if own.Type() == reflect.TypeFor[int64]() && !own.IsZero() {
			stay = append(stay, fmt.Sprintf("%s stays %d", name, own.Int()))
		}
	}
	if l.Rate == of.Rate && l.Max == of.Max {
		stay = nil
	}
	return l, stay
}

// overrides fills in the overrides of a rule whose limits are given.
func (r *Rule) overrides(f *File, s *reader.Source, path string, given []Limit, p *policy.Rule, where *origins) {
	path += ".overrides"
	list := path
	if s.Has(path + ".list") {
		list += ".list"
	}
	for i := range r.Overrides.List {
		at := fmt.Sprintf("%s[%d]", list, i)
		o, ok := r.Overrides.List[i].build(s, at, given, &r.Hybrid)
		if !ok {
			where.bad = true
			continue
		}
		p.Overrides = append(p.Overrides, o)
		where.add("Overrides", spot{path: at})
	}
	if setting := path + ".file"; r.Overrides.File != "" || s.Has(setting) {
		if !s.Has(setting) {
			setting = path
		}
		if file, ok := f.text(s, setting, r.Overrides.File); ok {
			p.MoreOverrides = r.rows(f, s, setting, given, where)
			where.rows = spot{path: setting, file: file.Path}
		}
	}
}

// rows returns the overrides of the table, which are read each time. Mistakes in the table are reported then.
func (r *Rule) rows(f *File, s *reader.Source, setting string, given []Limit, where *origins) iter.Seq[policy.Override] {
	return func(yield func(policy.Override) bool) {
		where.lines = where.lines[:0]
		t := table{Source: s, rule: r, given: given, made: map[string]policy.Override{}}
		f.rows(s, setting, r.Overrides.File, func(at spot, row []string) bool {
			o, ok := t.row(at, row)
			if !ok {
				return true
			}
			where.lines = append(where.lines, int32(at.pos.Line))
			return yield(o)
		})
	}
}

// build makes an override of a rule with the limits and the hybrid terms.
func (o *Override) build(s *reader.Source, path string, given []Limit, hybrid *Hybrid) (p policy.Override, ok bool) {
	p.Key = o.Key
	if len(o.Key) == 0 {
		s.Follow(path+".key", "is missing", "give the value of each part of the rule's key")
		return p, false
	}
	if o.Plan != "" || s.Has(path+".plan") {
		switch p.Plan = o.Plan; {
		case o.Plan == "":
			s.Follow(path+".plan", "is empty", "name a plan")
		case o.Limit != nil || o.Limits != nil:
			s.Follow(path+".plan", "is given, and numbers too", "give one of them")
		default:
			return p, true
		}
		return p, false
	}
	numbers, at := o.Limits, func(i int) string { return fmt.Sprintf("%s.limits[%d]", path, i) }
	if o.Limit != nil {
		if o.Limits != nil {
			s.Follow(path+".limits", "are given, and there is a limit too", "put all of them under limits")
			return p, false
		}
		numbers, at = []Numbers{*o.Limit}, func(int) string { return path + ".limit" }
	}
	p.Limits, ok = limitsOf(s, path, at, numbers, written(s, at), given, hybrid)
	return p, ok
}

// limitsOf makes the limits of an override or a plan. The function given reports which numbers a limit has.
func limitsOf(s *reader.Source, path string, at func(int) string, numbers []Numbers, given func(i int, name string) bool, of []Limit, hybrid *Hybrid) (limits []*sluice.Limit, ok bool) {
	if len(numbers) != len(of) {
		s.Follow(path, fmt.Sprintf("has numbers for %s, and the rule has %d", reader.Count(len(numbers), "limit"), len(of)), "give as many, in their order; {} leaves one as it is")
		return nil, false
	}
	for i := range numbers {
		merged, stay := numbers[i].over(of[i], func(name string) bool { return given(i, name) })
		merged.Name = ""
		l := merged.build(s, at(i))
		if l == nil {
			return nil, false
		}
		l, bad := hybrid.override(l)
		if bad != nil {
			s.Follow(at(i), "does not fit the rule: "+bad.String(), bad.remedy)
			return nil, false
		}
		if len(stay) > 0 {
			s.Warn(at(i), "changes the limit, and "+strings.Join(stay, ", ")+", as in the rule", "give these numbers too, also if they are to stay")
		}
		limits = append(limits, l)
	}
	return limits, true
}

// written reports which numbers a source has at some paths.
func written(s *reader.Source, at func(int) string) func(i int, name string) bool {
	return func(i int, name string) bool { return s.Has(at(i) + "." + name) }
}

// table reads the overrides of a file.
type table struct {
	*reader.Source
	rule    *Rule
	given   []Limit
	columns []column // nil before the first row; empty if that has a mistake
	keys    int
	text    []byte                     // the numbers of the row, each after its length
	made    map[string]policy.Override // the limits or plans of earlier rows, by their numbers
	warned  bool
}

// column is a number of a limit, or the plan.
type column struct {
	limit, field int
	name         string
}

// row reads a row; the first one names the columns.
func (t *table) row(at spot, row []string) (o policy.Override, ok bool) {
	if t.columns == nil {
		t.header(at, row)
		return o, false
	}
	if len(t.columns) == 0 {
		return o, false
	}
	if len(row) != t.keys+len(t.columns) {
		at.follow(t.Source, fmt.Sprintf("this line has %d fields, and the first one %d", len(row), t.keys+len(t.columns)), "give one for each column, empty to leave a number as it is")
		return o, false
	}
	o.Key, t.text = row[:t.keys], t.text[:0]
	for _, number := range row[t.keys:] {
		t.text = sluice.AppendKeyPart(t.text, number)
	}
	made, known := t.made[string(t.text)]
	if !known {
		made = t.terms(at, row[t.keys:])
		t.made[string(t.text)] = made
	}
	o.Limits, o.Plan = made.Limits, made.Plan
	return o, o.Limits != nil || o.Plan != ""
}

// terms returns the plan of a row, or makes its limits.
func (t *table) terms(at spot, row []string) (o policy.Override) {
	i := slices.IndexFunc(t.columns, func(c column) bool { return c.field == len(numberNames) })
	switch {
	case i < 0 || row[i] == "":
		o.Limits = t.limits(at, row)
	case strings.Join(row, "") != row[i]:
		at.follow(t.Source, "this line has a plan, and numbers too", "leave the numbers or the plan empty")
	default:
		o.Plan = row[i]
	}
	return o
}

// limits makes the limits of a row.
func (t *table) limits(at spot, row []string) []*sluice.Limit {
	numbers := make([]Numbers, len(t.given))
	for i, c := range t.columns {
		if row[i] == "" { // a plan too
			continue
		}
		v := reflect.ValueOf(&numbers[c.limit]).Elem().Field(c.field)
		if problem, suggestion := reader.Parse(v, row[i]); problem != "" {
			at.follow(t.Source, c.name+": "+reader.Quote(row[i])+" "+problem, suggestion)
			return nil
		}
	}
	given := func(limit int, name string) bool {
		i := slices.IndexFunc(t.columns, func(c column) bool { return c.limit == limit && columnNames[c.field] == name })
		return i >= 0 && row[i] != ""
	}
	inner := reader.New("", nil)
	limits, ok := limitsOf(inner, "", func(int) string { return "" }, numbers, given, t.given, &t.rule.Hybrid)
	if !ok {
		e := inner.Mistakes()[0]
		at.follow(t.Source, cmp.Or(strings.TrimPrefix(e.Path, "."), "this line")+" "+e.Problem, e.Suggestion)
	} else if len(inner.Warnings) > 0 && !t.warned {
		t.warned = true // other lines are alike
		w := inner.Warnings[0]
		t.AddWarning(&reader.Error{File: at.file, Pos: at.pos, Path: at.path, Problem: "this line " + w.Problem, Suggestion: w.Suggestion})
	}
	return limits
}

// numberNames are the names of numbers, and columnNames of all columns of limits: the last one is the plan.
var (
	numberNames = reader.Accepted(reflect.TypeFor[Numbers]())
	columnNames = append(slices.Clip(numberNames), "plan")
)

// header reads the names of the columns.
func (t *table) header(at spot, row []string) {
	t.columns = []column{}
	var columns []column
	seen := map[column]bool{}
	for i, name := range row {
		name = strings.TrimSpace(name)
		if name == "key" && len(columns) == 0 {
			t.keys++
			continue
		}
		c := column{name: name}
		number := name
		if of, rest, found := strings.Cut(name, "."); found {
			number = rest
			c.limit = t.limitOf(of)
		} else if len(t.given) > 1 && name != "plan" {
			at.follow(t.Source, fmt.Sprintf("column %d, %s, is of no limit", i+1, reader.Quote(name)), fmt.Sprintf("the rule has %d: write 1.%s for the first one", len(t.given), name))
			return
		}
		c.field = slices.Index(columnNames, number)
		switch {
		case c.limit < 0:
			at.follow(t.Source, fmt.Sprintf("column %d, %s, is of no limit of the rule", i+1, reader.Quote(name)), "give its name, or its number from 1 on")
			return
		case c.field < 0 || number == "plan" && name != number:
			at.follow(t.Source, fmt.Sprintf("column %d, %s, is unknown", i+1, reader.Quote(name)), reader.DidYouMean(number, append([]string{"key"}, columnNames...)))
			return
		case seen[column{limit: c.limit, field: c.field}]:
			at.follow(t.Source, fmt.Sprintf("column %d, %s, is there twice", i+1, reader.Quote(name)), "remove one of them")
			return
		}
		seen[column{limit: c.limit, field: c.field}] = true
		columns = append(columns, c)
	}
	switch {
	case t.keys != t.rule.keyParts():
		at.follow(t.Source, fmt.Sprintf("the first line names %s of keys, and the rule's key has %s", reader.Count(t.keys, "column"), reader.Count(t.rule.keyParts(), "part")), "begin it with key for each of them, as in key,rate,burst")
	case len(columns) == 0:
		at.follow(t.Source, "the first line has no column for a number", "write it as in key,rate,burst or key,plan")
	default:
		t.columns = columns
	}
}

// limitOf returns the number of a limit by its name, or -1.
func (t *table) limitOf(name string) int {
	for i := range t.given {
		if t.given[i].Name == name {
			return i
		}
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(t.given) {
		return n - 1
	}
	return -1
}
