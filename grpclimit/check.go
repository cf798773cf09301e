package grpclimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// uses are the ways in which a decider is used. Each use supports different rules.
type uses uint8

const (
	onServer uses = 1 << iota
	onClient
	onMessages
)

// fault is a setting of a rule that calls of gRPC cannot express, and the remedy.
type fault struct{ problem, remedy string }

// check returns an error that names each rule that cannot be carried out, and why. at is the function
// or field that got the policy.
func check(p *policy.Policy, u uses, at string) error {
	var errs []error
	for _, f := range checkReads(p.ClassReads(), u) {
		errs = append(errs, fmt.Errorf("grpclimit: %s: a class %s; %s", at, f.problem, f.remedy))
	}
	for _, r := range p.Rules() {
		where := "the limits of the key"
		if r.Name != "" {
			where = fmt.Sprintf("rule %q", r.Name)
		}
		faults := slices.Concat(checkEffects(r), checkMatch(&r.Match, u), checkReads(p.RuleReads(r.Name), u), checkOutcome(r, u))
		if u&onClient != 0 {
			faults = append(faults, checkClient(r)...)
		}
		if u&onMessages != 0 {
			faults = append(faults, checkMessages(r)...)
		}
		for _, f := range faults {
			errs = append(errs, fmt.Errorf("grpclimit: %s: %s: %s; %s", at, where, f.problem, f.remedy))
		}
	}
	return errors.Join(errs...)
}

// checkEffects finds effects that no call can have.
func checkEffects(r *policy.Rule) (faults []fault) {
	a := &r.WhenLimited
	if r.Bandwidth != nil {
		faults = append(faults, fault{"Bandwidth paces bytes of bodies, and calls have messages", "leave it out; ServerOptions.Received and Sent limit messages"})
	}
	switch {
	case a.Action == policy.Degrade && a.Upstream != "":
		faults = append(faults, fault{"WhenLimited.Upstream sends calls elsewhere, which an interceptor cannot do", "leave it out: the handler finds metadata on a degraded call"})
	case a.Action == policy.Degrade && a.Answers():
		faults = append(faults, fault{"WhenLimited has an answer for degraded calls, and only a handler can make a message", "leave it out: the handler finds metadata on a degraded call"})
	case a.File != "":
		faults = append(faults, fault{"WhenLimited.File is the body of an answer, and a status has only a message", "give a short text as Body"})
	case a.ContentType != "":
		faults = append(faults, fault{"WhenLimited.ContentType is given, and a status has no type", "leave it out"})
	case a.Action == policy.Deny && a.Status != 0 && !hasCode(a.Status):
		faults = append(faults, fault{fmt.Sprintf("WhenLimited.Status %d fits no code of gRPC", a.Status), "leave it out for RESOURCE_EXHAUSTED"})
	}
	for _, headers := range []map[string]string{a.Header, a.RequestHeader} {
		for name, value := range headers {
			switch {
			case isReserved(name):
				faults = append(faults, fault{fmt.Sprintf("WhenLimited sets %q, which gRPC keeps for itself or for bytes", name), "choose another name"})
			case strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
				faults = append(faults, fault{fmt.Sprintf("WhenLimited sets %q, which cannot be a metadata key", name), "use letters, digits, dashes, underscores and dots"})
			case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
				faults = append(faults, fault{fmt.Sprintf("WhenLimited sets %q to a value that is not printable ASCII", name), "give one that is"})
			}
		}
	}
	return faults
}

// isReserved reports whether metadata of a name cannot be set, or is not text.
func isReserved(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "grpc-") || isBinary(name) || name == "content-type" || name == "user-agent" || name == "te"
}

// checkClient finds effects that only servers have.
func checkClient(r *policy.Rule) (faults []fault) {
	a := &r.WhenLimited
	if a.Action == policy.Degrade || a.Action == policy.Mark {
		faults = append(faults, fault{fmt.Sprintf("WhenLimited.Action is %v, and a client passes no marks on", a.Action), "deny, or give the rule to the server"})
	}
	if len(a.Header) > 0 {
		faults = append(faults, fault{"WhenLimited.Header is given, and a call that a client denies has no trailer", "leave it out"})
	}
	if len(r.AllowIPs)+len(r.DenyIPs) > 0 {
		faults = append(faults, fault{"AllowIPs or DenyIPs is given, and a client has no address of a client", "leave it out"})
	}
	return faults
}

// checkMatch finds conditions that hold for no call.
func checkMatch(m *policy.Match, u uses) (faults []fault) {
	if len(m.Methods) > 0 && !slices.Contains(m.Methods, http.MethodPost) {
		faults = append(faults, fault{fmt.Sprintf("Match.Methods %v match no call, because calls have the HTTP method POST", m.Methods), "leave them out; methods of gRPC are paths, such as /shop.v1.Orders/Create"})
	}
	for _, path := range m.Paths {
		if path != "/**" && strings.Count(path, "/") < 2 {
			faults = append(faults, fault{fmt.Sprintf("Match.Paths %q matches no call", path), "write a full method such as /shop.v1.Orders/Create, or /shop.v1.Orders/*"})
		}
	}
	if m.Descriptor != nil {
		faults = append(faults, fault{"Match.Descriptor matches descriptors, and a call has none", "match paths"})
	}
	if u&onClient != 0 {
		if len(m.Hosts) > 0 {
			faults = append(faults, fault{"Match.Hosts matches no call on a client, which does not have the authority yet", "leave it out"})
		}
		if len(m.ClientIPs) > 0 {
			faults = append(faults, fault{"Match.ClientIPs matches no call on a client", "leave it out"})
		}
		if m.Marked != nil {
			faults = append(faults, fault{"Match.Marked is given, and a client has no earlier hop", "leave it out"})
		}
	}
	for i := range m.Unless {
		faults = append(faults, checkMatch(&m.Unless[i], u)...)
	}
	return faults
}

// checkReads finds values that no call has.
func checkReads(read []source.Value, u uses) (faults []fault) {
	for _, v := range read {
		switch v.Source {
		case policy.FromCookie:
			faults = append(faults, fault{fmt.Sprintf("reads the cookie %q, and calls have none", v.Name), "read a metadata key, as a header"})
		case policy.FromQuery:
			faults = append(faults, fault{fmt.Sprintf("reads the parameter %q of a query, and calls have none", v.Name), "read a metadata key, as a header"})
		case source.Method:
			faults = append(faults, fault{"has the HTTP method in its key, which is POST for all calls", "write path, which is the method of gRPC"})
		case source.ClientIP, source.Host:
			if u&onClient != 0 {
				faults = append(faults, fault{fmt.Sprintf("reads %v, which a client does not have", v.Source), "leave it out, or count on the server"})
			}
		}
	}
	return faults
}

// checkOutcome finds costs and statuses that cannot be read from the result of a call.
func checkOutcome(r *policy.Rule, u uses) (faults []fault) {
	switch s := r.Cost.Source; {
	case s == policy.CostRequestBytes || s == policy.CostResponseBytes || s == policy.CostModel:
		faults = append(faults, fault{fmt.Sprintf("Cost.Source is %v, and calls have messages", s), "give PolicyOptions.Cost, which can measure a message"})
	case s == policy.CostResponseHeader && u&onClient != 0:
		faults = append(faults, fault{fmt.Sprintf("Cost.Source is %v, which a client does not read", s), "settle costs on the server"})
	}
	for _, s := range r.CountStatus {
		if !slices.ContainsFunc(statusOf[:], func(status int) bool { return s.From <= status && status <= s.To }) {
			faults = append(faults, fault{fmt.Sprintf("CountStatus %d to %d fits no code of gRPC", s.From, s.To), "give the statuses of codes, such as 401 for UNAUTHENTICATED"})
		}
	}
	return faults
}

// checkMessages finds settings that work for a call, but not for a message of a stream.
func checkMessages(r *policy.Rule) (faults []fault) {
	for _, l := range r.Limits {
		if l.IsConcurrency() {
			faults = append(faults, fault{fmt.Sprintf("limit %q counts calls in progress, and a message has no end", l.Name()), "limit the streams by it"})
		}
	}
	switch {
	case len(r.WhenLimited.Header) > 0:
		faults = append(faults, fault{"WhenLimited.Header is given, and a stream that a message ends has only a status", "leave it out"})
	case len(r.CountStatus) > 0:
		faults = append(faults, fault{"CountStatus is given, and messages have no status", "leave it out"})
	case r.Cost.Source == policy.CostResponseHeader:
		faults = append(faults, fault{fmt.Sprintf("Cost.Source is %v, and messages have no result", r.Cost.Source), "give PolicyOptions.Cost, which can measure a message"})
	case r.WhenLimited.Action == policy.Degrade || r.WhenLimited.Action == policy.Mark:
		faults = append(faults, fault{fmt.Sprintf("WhenLimited.Action is %v, and messages have no metadata", r.WhenLimited.Action), "deny, or give the rule for calls"})
	}
	return faults
}
