package describe

import (
	"time"

	"github.com/sluicehq/sluice/policy"
)

// LimitResult is the JSON of a limit that applies to a request, and of what the request takes of it. It is part
// of the answers of the decision API and of `sluice explain --json`.
type LimitResult struct {
	Limit     string `json:"limit"`
	Algorithm string `json:"algorithm"`
	// Role defines what follows from the decision: enforced, advisory, shadow or candidate.
	Role string `json:"role"`
	// Listed is the list of the rule that the key or the client is on.
	Listed   string `json:"listed,omitempty"`
	Override bool   `json:"override,omitempty"`
	// From is where the numbers come from, unless they are the rule's: plan, file or call. Plan is the plan whose
	// numbers these are.
	From string `json:"from,omitempty"`
	Plan string `json:"plan,omitempty"`
	Cost int64  `json:"cost"`
	// Settles means that the cost is known only after the response.
	Settles bool  `json:"settles,omitempty"`
	Floor   int64 `json:"floor,omitempty"`
	// Ahead says that the limit denied the request, and units ahead of the key paid for it.
	Ahead bool `json:"ahead,omitempty"`
}

// LimitResult returns the JSON of a limit that applies to a request.
func (p *Phrases) LimitResult(m *policy.LimitResult) LimitResult {
	from := ""
	if m.From != policy.FromRule {
		from = m.From.String()
	}
	return LimitResult{
		From: from, Plan: m.Plan(),
		Limit: m.Request.Limit.Name(), Algorithm: p.limit(m.Request.Limit).algorithm, Role: m.Role.String(), Listed: m.Listed.String(),
		Override: m.Override, Cost: m.Request.Cost, Settles: m.Settles(), Floor: m.Request.Floor, Ahead: m.Ahead != nil,
	}
}

// Explanation is the JSON of a trace.
type Explanation struct {
	Method   string   `json:"method"`
	Path     string   `json:"path"`
	Variants []string `json:"path_variants,omitempty"`
	Host     string   `json:"host"`
	ClientIP string   `json:"client_ip"`
	Class    string   `json:"class,omitempty"`
	Bypass   bool     `json:"bypass,omitempty"`
	Matched  bool     `json:"matched"`
	Default  string   `json:"default"`
	// Refused is why the request is refused whatever the rules say.
	Refused string `json:"refused,omitempty"`
	// Stray is the path variant that the default refuses.
	Stray string          `json:"stray_path,omitempty"`
	Rules []ExplainedRule `json:"rules"`
}

// ExplainedRule is the JSON of a rule in a trace.
type ExplainedRule struct {
	Rule    string `json:"rule"`
	Matched bool   `json:"matched"`
	// Path is the path variant that matches the rule, if that is not the path.
	Path string `json:"as_path,omitempty"`
	// Failed is the condition that fails, in a word, and Because the same in words.
	Failed  string `json:"failed,omitempty"`
	Because string `json:"because,omitempty"`
	// Limited is why the rule limits the request whatever its limits decide.
	Limited string `json:"limited,omitempty"`
	Action  string `json:"action,omitempty"`
	Shadow  bool   `json:"shadow,omitempty"`
	// Plan is what names the plan of the request, if the rule has numbers by plan. Unknown means that the policy does
	// not have that plan.
	Plan   *ExplainedPart   `json:"plan,omitempty"`
	Key    []ExplainedPart  `json:"key,omitempty"`
	Limits []ExplainedLimit `json:"limits,omitempty"`
	// Ahead are the units ahead of the key, which pay for what the limits lack.
	Ahead *ExplainedAhead `json:"ahead,omitempty"`
}

// ExplainedAhead is the JSON of units ahead in a trace: how many were given, and their end.
type ExplainedAhead struct {
	Units int64     `json:"units"`
	Until time.Time `json:"until"`
}

// ExplainedLimit is the JSON of a limit in a trace.
type ExplainedLimit struct {
	LimitResult

	// Hybrid describes the most and the least that a hybrid limit admits.
	Hybrid string `json:"hybrid,omitempty"`
}

// ExplainedPart is the JSON of a part of a key.
type ExplainedPart struct {
	Part    string `json:"part"`
	Value   string `json:"value"`
	Missing bool   `json:"missing,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
}

// NewExplanation returns the JSON of a trace. It contains values of the request. Remote means that the store is on another
// machine.
func NewExplanation(t *policy.Trace, remote bool) *Explanation {
	e := &Explanation{
		Method: t.Method, Path: t.Path, Variants: t.Variants, Host: t.Host, ClientIP: t.ClientIP.String(), Class: t.Class, Bypass: t.Bypass,
		Matched: t.Matches(), Default: t.Default.String(), Refused: errorText(t.Refused), Stray: t.Stray, Rules: []ExplainedRule{},
	}
	var phrases Phrases
	for i := range t.Rules {
		r := &t.Rules[i]
		x := ExplainedRule{Rule: r.Rule.Name, Matched: r.Unmet == nil}
		if x.Matched {
			if r.Path != t.Path {
				x.Path = r.Path
			}
			x.Action, x.Shadow, x.Limited = r.Rule.WhenLimited.Action.String(), r.Rule.Shadow, r.Denied.String()
		} else {
			x.Failed, x.Because = string(r.Unmet.Condition), unmet(r.Unmet)
		}
		for _, k := range r.Key {
			x.Key = append(x.Key, ExplainedPart{Part: k.Part.String(), Value: k.Value, Missing: !k.OK})
		}
		if k := r.Plan; k != nil {
			missing := k.Value == "" && !k.Repeated
			x.Plan = &ExplainedPart{Part: k.Part.String(), Value: k.Value, Missing: missing, Unknown: !k.OK && !missing}
		}
		if r.Ahead != nil {
			x.Ahead = &ExplainedAhead{r.Ahead.Units, r.Ahead.Until.UTC()}
		}
		for j := range r.Results {
			if r.Rule.Always {
				x.Limited = "always"
				break
			}
			m := &r.Results[j]
			x.Limits = append(x.Limits, ExplainedLimit{phrases.LimitResult(m), ifRemote(Hybrid(m.Request.Limit), remote)})
		}
		e.Rules = append(e.Rules, x)
	}
	return e
}

// errorText returns the text of an error, empty for none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
