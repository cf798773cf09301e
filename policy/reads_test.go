package policy_test

import (
	"slices"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// sourceReader is a condition that reads a value.
type sourceReader struct{ source.Value }

func (sourceReader) Matches(*policy.Attributes) bool { return true }
func (r sourceReader) Reads() []source.Value         { return []source.Value{r.Value} }

// A rule lists all the values of a request that it reads.
func TestRulesListWhatTheyRead(t *testing.T) {
	limits := []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1)})}
	p, err := policy.New(policy.Options{
		Classes: []policy.Class{{Name: "c", Match: policy.Match{Queries: []policy.ValueMatch{{Name: "q"}}}}},
		Rules: []policy.Rule{{
			Name: "r",
			Match: policy.Match{
				Cookies: []policy.ValueMatch{{Name: "c"}}, If: []policy.Matcher{sourceReader{source.Value{Source: policy.FromClaim, Name: "sub"}}},
				Unless: []policy.Match{{Headers: []policy.ValueMatch{{Name: "x-un"}}}},
			},
			Key:    []policy.Part{policy.Template("{client_ip}/{query:q}"), policy.Function("own", func(*policy.Attributes) (string, bool) { return "", false })},
			Limits: limits, Cost: policy.Cost{Header: "X-Cost"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []source.Value{
		{Source: policy.FromCookie, Name: "c"},
		{Source: policy.FromClaim, Name: "sub"},
		{Source: policy.FromHeader, Name: "X-Un"},
		{Source: source.ClientIP},
		{Source: policy.FromQuery, Name: "q"},
		{Source: policy.FromHeader, Name: "X-Cost"},
	}
	if got := p.RuleReads("r"); !slices.Equal(got, want) {
		t.Errorf("the rule reads %v, want %v", got, want)
	}
	if got := p.RuleReads("other"); got != nil {
		t.Errorf("a rule that does not exist reads %v", got)
	}
	if got, want := p.ClassReads(), []source.Value{{Source: policy.FromQuery, Name: "q"}}; !slices.Equal(got, want) {
		t.Errorf("the classes read %v, want %v", got, want)
	}
	single, err := policy.Single(policy.Rule{Key: []policy.Part{policy.Cookie("c")}, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	if got := single.RuleReads(""); len(got) != 1 {
		t.Errorf("a single rule reads %v", got)
	}
}

// A policy uses marks if one of its rules has a condition on them, also in an exception.
func TestConditionsOnMarksAreFound(t *testing.T) {
	marked := true
	for want, match := range map[bool]policy.Match{
		false: {Paths: []string{"/a"}},
		true:  {Unless: []policy.Match{{Marked: &marked}}},
	} {
		rules := []policy.Rule{
			{Name: "a", Key: []policy.Part{policy.Constant("all")}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1)})}},
			{Name: "b", Match: match, Always: true},
		}
		p, err := policy.New(policy.Options{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.UsesMarks(); got != want {
			t.Errorf("a policy with %+v uses marks: %v, want %v", match, got, want)
		}
	}
}
