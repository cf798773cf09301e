package rules

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// Cost is how many units a request takes: a number, or a mapping.
type Cost struct {
	// Units is the cost itself or, with a header of requests, the cost of a request without the
	// header. Default: 1.
	Units int64 `yaml:"units" unit:"units"`
	// Source is where the cost comes from. A cost that is known only afterwards is settled
	// then. Default: header if header is given, otherwise constant.
	Source policy.CostSource `yaml:"source" oneof:"- constant header request_bytes response_bytes response_header model"`
	// Header is the header that holds the cost, of the request or of the response. Clients must not be
	// able to set a header of requests. Default: none.
	Header string `yaml:"header"`
	// Estimate is taken while the cost is not known. With source model it is the output of a request that does not
	// limit its output, in tokens, and 4096 unless it is given. Default: 1.
	Estimate int64 `yaml:"estimate" unit:"units"`
	// Max caps a cost from a header or a size. 0 means no cap. Default: 0.
	Max int64 `yaml:"max" unit:"units"`
	// Format is the form of the model's API, for source model. With auto, the path of the request decides: see
	// docs/models.md. Default: auto.
	Format string `yaml:"format" oneof:"- auto openai-chat openai-completions openai-responses openai-embeddings anthropic-messages gemini"`
	// Body is how much of a request's body is read, for source model. A larger body costs an estimate. Default: 1MiB.
	Body reader.Size `yaml:"body"`
	// BytesPerToken is how many bytes of a request are estimated as one token, for source model. With 1, no estimate is
	// too low. Default: 4.
	BytesPerToken int64 `yaml:"bytes_per_token" unit:"bytes"`
	// OnLeave is what becomes of a request whose client leaves, for source model: finish awaits the answer, and cancel
	// ends the request to the service. Default: finish.
	OnLeave string `yaml:"on_leave" oneof:"- finish cancel"`
	// IncludeUsage requests the usage of OpenAI's streams, and removes it from what the client gets, for source model.
	// Without it, a stream without its usage costs the estimate. Default: false.
	IncludeUsage bool `yaml:"include_usage"`
	// Prices are prices of models, for source model: a list, or the name of a CSV file. The first that matches applies, and
	// another model is refused. Default: each token costs one unit.
	Prices Prices `yaml:"prices"`
}

// Prices are prices of models: a list, the name of a file, or both.
//
// The file is a table of comma-separated values. Its first line names the columns: model, input and output, and perhaps
// cached_input and cache_write.
type Prices struct {
	// File is the file of the table. Its path is relative to this file. Default: none.
	File string `yaml:"file" path:"included"`
	// List holds prices. They are before the prices of the file. Default: none.
	List []Price `yaml:"list"`
}

// Short implements [reader.Shorthand].
func (*Prices) Short(list bool) string {
	if list {
		return "list"
	}
	return "file"
}

// Price is the price of a model, in units for a million tokens.
type Price struct {
	// Model is the name of a model, in any case. A star matches any text: gpt-4o*, or * for all others. Required.
	Model string `yaml:"model"`
	// Input is the price of input.
	Input int64 `yaml:"input" unit:"units"`
	// Output is the price of output, with reasoning.
	Output int64 `yaml:"output" unit:"units"`
	// CachedInput is the price of input from a cache of the service. Default: the price of input.
	CachedInput int64 `yaml:"cached_input" unit:"units"`
	// CacheWrite is the price of input that goes into a cache of the service. Default: the price of input.
	CacheWrite int64 `yaml:"cache_write" unit:"units"`
}

// model returns how a cost of models is computed; nil for other costs.
func (c *Cost) model(f *File, s *reader.Source, path string, where *origins) *policy.ModelCost {
	m := &policy.ModelCost{
		Format: c.Format, Body: int64(c.Body), BytesPerToken: c.BytesPerToken, Cancel: c.OnLeave == "cancel", IncludeUsage: c.IncludeUsage,
	}
	if m.Format == "auto" {
		m.Format = ""
	}
	where.set("Cost.Model", path)
	if c.Source != policy.CostModel {
		for _, name := range []string{"format", "body", "bytes_per_token", "on_leave", "include_usage", "prices"} {
			if s.Has(path + "." + name) {
				s.FollowKey(path+"."+name, "is for a cost with the source model", "add source: model, or remove it")
			}
		}
		return nil
	}
	add := func(at spot, p policy.ModelPrice) {
		where.put(fmt.Sprintf("Cost.Model.Prices[%d]", len(m.Prices)), at)
		m.Prices = append(m.Prices, p)
	}
	list := path + ".prices"
	if s.Has(list + ".list") {
		list += ".list"
	}
	for i, p := range c.Prices.List {
		add(spot{path: fmt.Sprintf("%s[%d]", list, i)}, policy.ModelPrice(p))
	}
	if setting := path + ".prices.file"; c.Prices.File != "" || s.Has(setting) {
		if !s.Has(setting) {
			setting = path + ".prices"
		}
		t := priceTable{}
		before := len(m.Prices)
		f.rows(s, setting, c.Prices.File, func(at spot, row []string) bool {
			if p, ok := t.row(s, at, row); ok {
				add(at, policy.ModelPrice(p))
			}
			return true
		})
		where.bad = where.bad || t.bad // otherwise tokens would be units
		if len(m.Prices) == before && !s.Failed(setting) && !t.bad {
			where.bad = true
			s.Follow(setting, "has no prices", "write a line of names such as model,input,output, and a line for each model")
		}
	}
	return m
}

// priceTable reads the prices of a file.
type priceTable struct {
	columns []int // fields of Price; nil before the first line
	bad     bool
}

var priceNames = reader.Accepted(reflect.TypeFor[Price]())

// row reads a line; the first one names the columns.
func (t *priceTable) row(s *reader.Source, at spot, row []string) (p Price, ok bool) {
	fail := func(problem, suggestion string) (Price, bool) {
		t.bad = true
		at.follow(s, problem, suggestion)
		return p, false
	}
	if t.columns == nil {
		t.columns = []int{}
		for i, name := range row {
			field := slices.Index(priceNames, strings.TrimSpace(name))
			switch {
			case field < 0:
				return fail(fmt.Sprintf("column %d, %s, is unknown", i+1, reader.Quote(name)), reader.DidYouMean(name, priceNames))
			case slices.Contains(t.columns, field):
				return fail(fmt.Sprintf("column %d, %s, is there twice", i+1, reader.Quote(name)), "remove one of them")
			}
			t.columns = append(t.columns, field)
		}
		for _, name := range []string{"model", "input", "output"} {
			if !slices.Contains(t.columns, slices.Index(priceNames, name)) {
				return fail("the first line has no column "+name, "write it as in model,input,output")
			}
		}
		return p, false
	}
	switch {
	case t.bad:
		return p, false
	case len(row) != len(t.columns):
		return fail(fmt.Sprintf("this line has %d fields, and the first one %d", len(row), len(t.columns)), "give one for each column; an empty cached_input or cache_write is the price of input")
	}
	for i, text := range row {
		name := priceNames[t.columns[i]]
		if text = strings.TrimSpace(text); text == "" && name != "input" && name != "output" {
			continue
		}
		if name == "model" {
			p.Model = text
		} else if problem, suggestion := reader.Parse(reflect.ValueOf(&p).Elem().Field(t.columns[i]), text); problem != "" {
			return fail(name+": "+reader.Quote(text)+" "+problem, suggestion)
		}
	}
	return p, true
}

// Short implements [reader.Shorthand].
func (*Cost) Short(list bool) string { return reader.Single("units", list) }

// given reports whether a file has a cost.
func (c *Cost) given() bool { return !reflect.ValueOf(c).Elem().IsZero() }

var statuses = regexp.MustCompile(`^(\d)xx$|^(\d{3})-(\d{3})$|^\d{3}$`)

// Status is a status of responses, or a range of them: 401, 4xx or 500-503.
type Status policy.StatusRange

// String returns the status or range as it is written.
func (r Status) String() string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// Number implements [reader.Number]: a single status may be a number.
func (*Status) Number() string { return "a status" }

// Parse reads the text.
func (r *Status) Parse(text string) (problem, suggestion string) {
	const example = "write it as in 401, 4xx or 500-503"
	m := statuses.FindStringSubmatch(text)
	if m == nil {
		if lower := strings.ToLower(text); statuses.MatchString(lower) {
			return "is not a status", "write " + lower
		}
		return "is not a status", example
	}
	number := func(s string) int {
		i, _ := strconv.Atoi(s) // three digits at most
		return i
	}
	*r = Status(policy.Status(number(text)))
	switch {
	case m[1] != "":
		*r = Status{From: 100 * number(m[1]), To: 100*number(m[1]) + 99}
	case m[2] != "":
		*r = Status{From: number(m[2]), To: number(m[3])}
	}
	if r.From < 100 || r.To > 599 || r.From > r.To {
		return "has no status from 100 to 599", example
	}
	return "", ""
}

// Reserve keeps the last units of each limit of a rule for some classes. Give share or units.
type Reserve struct {
	// Share is a whole percentage of each limit, up to 99%.
	Share reader.Share `yaml:"share"`
	// Units is a number of units, instead of a share.
	Units int64 `yaml:"units" unit:"units"`
	// For holds the names of the classes. Required.
	For []string `yaml:"for"`
}

func (r *Reserve) build(s *reader.Source, path string) policy.Reserve {
	p := policy.Reserve{Units: r.Units, For: r.For}
	if r.Share == (reader.Share{}) {
		if r.Units == 0 {
			if !s.Failed(path) {
				s.Follow(path+".share", "is missing", "give a share such as 20%, or units")
			}
			p.Units = 1 // so that no other mistake is reported
		}
		return p
	}
	const percent = 100
	switch {
	case percent*r.Share.Of%r.Share.Parts != 0:
		s.Follow(path+".share", r.Share.String()+" is not a whole number of percent", "give one such as 20%")
		p.Share, p.Units = 1, 0
	case r.Share.Of == r.Share.Parts:
		s.Follow(path+".share", "is all of it", "give 99% or less, or deny other classes by a rule of their own")
		p.Share, p.Units = 1, 0
	default:
		p.Share = int(percent * r.Share.Of / r.Share.Parts)
	}
	return p
}
