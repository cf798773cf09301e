package rules

import (
	"fmt"
	"regexp"
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
	Source policy.CostSource `yaml:"source" oneof:"- constant header request_bytes response_bytes response_header"`
	// Header is the header that holds the cost, of the request or of the response. Clients must not be
	// able to set a header of requests. Default: none.
	Header string `yaml:"header"`
	// Estimate is taken while the cost is not known. Default: 1.
	Estimate int64 `yaml:"estimate" unit:"units"`
	// Max caps a cost from a header or a size. 0 means no cap. Default: 0.
	Max int64 `yaml:"max" unit:"units"`
}

// Short implements [reader.Shorthand].
func (*Cost) Short(list bool) string { return reader.Single("units", list) }

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
