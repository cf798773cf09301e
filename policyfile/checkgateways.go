package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/policy"
)

// warnGateways reports what rules do after the decision, if a listener decides for gateways. A gateway passes
// requests and responses on by itself.
func (f *File) warnGateways(s *source) {
	var on []string
	if !f.Listen.Auth.Off() {
		on = append(on, "listen.auth")
	}
	// Envoy's external authorization can answer a request instead of passing it on.
	quiet := strings.Join(on, " and ")
	if !f.Listen.GRPC.Off() {
		on = append(on, "listen.grpc")
	}
	if len(on) == 0 {
		return
	}
	at := strings.Join(on, " and ")
	for i := range f.Rules {
		if f.Rules[i].Descriptor != nil {
			continue
		}
		f.Rules[i].warnGateway(s, fmt.Sprintf("rules[%d]", i), at, quiet)
	}
}

// warnGateway reports what a rule does after the decision. The listeners of quiet, empty for none, cannot answer a request
// that is degraded.
func (r *Rule) warnGateway(s *source, path, at, quiet string) {
	const remedy = "limit such requests at listen.proxy, or accept it"
	without := "has no effect on requests at " + at
	if r.Bandwidth != nil {
		s.followKey(path+".bandwidth", without+": bodies do not pass through Sluice", remedy)
	}
	if len(r.CountStatus) > 0 {
		s.followKey(path+".count_status", without+": the response is not known, so each request counts", remedy)
	}
	if c := r.Cost.Source; c.AfterResponse() || c == policy.CostRequestBytes {
		where := path + ".cost"
		if s.has(where + ".source") {
			where += ".source"
		}
		s.followKey(where, without+": the size or response is not known, so each request costs the estimate", remedy)
	}
	if slices.ContainsFunc(r.limitsGiven(), func(l Limit) bool { return l.Algorithm == "concurrency" }) {
		where := path + ".limits"
		if r.Limit != nil {
			where = path + ".limit"
		}
		s.followKey(where, "has little effect on requests at "+at+": their end is not known, so each lease is released after the decision", remedy)
	}
	if w := &r.WhenLimited; w.Action == "degrade" {
		const degraded = ": they pass as they are, with the header Sluice-Degraded or request_header in the answer to the gateway"
		if w.Upstream == "" {
			at = quiet
		}
		given := w.Upstream != "" || w.Status != 0 || w.Body != "" || w.File != ""
		if given && at != "" {
			s.followKey(path+".when_limited", "degrades no requests at "+at+degraded, "have the gateway read the header, or "+remedy)
		}
	}
}
