package cli

import (
	"github.com/sluicehq/sluice/policy"
)

// explanation is a trace as JSON.
type explanation struct {
	Method   string          `json:"method"`
	Path     string          `json:"path"`
	Others   []string        `json:"other_paths,omitempty"`
	Host     string          `json:"host"`
	ClientIP string          `json:"client_ip"`
	Class    string          `json:"class,omitempty"`
	Bypass   bool            `json:"bypass,omitempty"`
	Met      bool            `json:"met"`
	Default  string          `json:"default"`
	Stray    string          `json:"stray_path,omitempty"` // which the default refuses
	Rules    []explainedRule `json:"rules"`
}

type explainedRule struct {
	Rule    string           `json:"rule"`
	Met     bool             `json:"met"`
	Path    string           `json:"as_path,omitempty"` // by which it is met, if that is not the path above
	Because string           `json:"because,omitempty"` // it is not met
	Limited string           `json:"limited,omitempty"` // whatever the limits say
	Action  string           `json:"action,omitempty"`
	Shadow  bool             `json:"shadow,omitempty"`
	Key     []explainedPart  `json:"key,omitempty"`
	Limits  []explainedLimit `json:"limits,omitempty"`
}

type explainedPart struct {
	Part    string `json:"part"`
	Value   string `json:"value"`
	Missing bool   `json:"missing,omitempty"`
}

type explainedLimit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Role      string `json:"role"`
	Listed    string `json:"listed,omitempty"`
	Override  bool   `json:"override,omitempty"`
	Cost      int64  `json:"cost"`
	Settles   bool   `json:"settles,omitempty"`
	Floor     int64  `json:"floor,omitempty"`
}

func newExplanation(method string, t *policy.Trace) *explanation {
	e := &explanation{
		Method: method, Path: t.Path, Others: t.Others, Host: t.Host, ClientIP: t.ClientIP.String(), Class: t.Class, Bypass: t.Bypass,
		Met: t.Met(), Default: t.Default.String(), Stray: t.Stray, Rules: []explainedRule{},
	}
	for i := range t.Rules {
		r := &t.Rules[i]
		x := explainedRule{Rule: r.Rule.Name, Met: r.Unmet == "", Because: r.Unmet}
		if x.Met {
			if r.Path != t.Path {
				x.Path = r.Path
			}
			x.Action, x.Shadow, x.Limited = r.Rule.WhenLimited.Action.String(), r.Rule.Shadow, r.Denied.String()
		}
		for _, k := range r.Key {
			x.Key = append(x.Key, explainedPart{Part: k.Part.String(), Value: k.Value, Missing: !k.OK})
		}
		for j := range r.Met {
			m := &r.Met[j]
			if r.Rule.Always {
				x.Limited = "always"
				break
			}
			x.Limits = append(x.Limits, explainedLimit{
				Name: m.Request.Limit.Name(), Algorithm: m.Request.Limit.Algorithm().String(), Role: m.Role.String(), Listed: m.Listed.String(),
				Override: m.Override, Cost: m.Request.Cost, Settles: m.Settles(), Floor: m.Request.Floor,
			})
		}
		e.Rules = append(e.Rules, x)
	}
	return e
}
