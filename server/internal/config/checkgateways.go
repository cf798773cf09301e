package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/expression"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/policy"
)

// warnGateways reports what rules do after the decision, if a listener decides for gateways. A gateway passes
// requests and responses on by itself.
func (f *File) warnGateways(s *reader.Source) {
	var on []string
	if !f.Listen.Auth.Off() {
		on = append(on, "listen.auth")
	}
	if !f.Listen.SPOE.Off() {
		on = append(on, "listen.spoe")
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
		warnGateway(&f.Rules[i], s, fmt.Sprintf("rules[%d]", i), at, quiet)
		if !f.Listen.SPOE.Off() {
			warnWaiting(&f.Rules[i], s, fmt.Sprintf("rules[%d]", i))
		}
	}
}

// warnGateway reports what a rule does after the decision. The listeners of quiet, empty for none, cannot answer a request
// that is degraded.
func warnGateway(r *rules.Rule, s *reader.Source, path, at, quiet string) {
	const remedy = "limit such requests at listen.proxy, or accept it"
	without := "has no effect on requests at " + at
	if r.Bandwidth != nil {
		s.FollowKey(path+".bandwidth", without+": bodies do not pass through Sluice", remedy)
	}
	if len(r.CountStatus) > 0 {
		s.FollowKey(path+".count_status", without+": the response is not known, so each request counts", remedy)
	}
	if c := r.Cost.Source; c.AfterResponse() || c == policy.CostRequestBytes {
		where := path + ".cost"
		if s.Has(where + ".source") {
			where += ".source"
		}
		s.FollowKey(where, without+": the size or response is not known, so each request costs the estimate", remedy)
	}
	for i, text := range r.Match.If {
		if e, err := expression.Parse(text); err == nil && e.UsesSize() {
			s.Follow(fmt.Sprintf("%s.match.if[%d]", path, i), "uses request_bytes, and a request at "+at+" may be reported without its length, which counts as small and as large", "have the gateway report Content-Length, or "+remedy)
		}
	}
	if slices.ContainsFunc(r.LimitsGiven(), func(l rules.Limit) bool { return l.Algorithm == "concurrency" }) {
		s.FollowKey(strings.TrimSuffix(limitAt(r, path, 0), "[0]"), "has little effect on requests at "+at+": their end is not known, so each lease is released after the decision", remedy)
	}
	if w := &r.WhenLimited; w.Action == "degrade" {
		const degraded = ": they pass as they are, with the header Sluice-Degraded or request_header in the answer to the gateway"
		if w.Upstream == "" {
			at = quiet
		}
		given := w.Upstream != "" || w.Status != 0 || w.Body != "" || w.File != ""
		if given && at != "" {
			s.FollowKey(path+".when_limited", "degrades no requests at "+at+degraded, "have the gateway read the header, or "+remedy)
		}
	}
}

// warnWaiting reports that a rule lets requests wait, and HAProxy may not.
func warnWaiting(r *rules.Rule, s *reader.Source, path string) {
	if r.WhenLimited.Action == "degrade" || r.WhenLimited.Action == "mark" || r.MaxWait != nil && *r.MaxWait == 0 {
		return
	}
	const problem, remedy = "lets requests wait, and HAProxy at listen.spoe waits only for its timeout processing, then decides without an answer", "make that timeout longer than the longest wait"
	for i, l := range r.LimitsGiven() {
		queued := l.Queue > 0 && l.Algorithm != "concurrency"
		if !queued && (r.MaxWait == nil || l.Algorithm != "token_bucket" && l.Algorithm != "leaky_bucket") {
			continue
		}
		where := path + ".max_wait"
		if r.MaxWait == nil {
			where = limitAt(r, path, i)
		}
		s.FollowKey(where, problem, remedy)
		return
	}
}

// warnRedisClients reports the limits whose leases clients of Redis cannot hold, because no command ends a lease.
func (f *File) warnRedisClients(s *reader.Source) {
	if f.Listen.RESP.Off() {
		return
	}
	const problem, remedy = "is a concurrency limit, and SLUICE.CHECK at listen.resp releases each lease after the decision", "have programs call /v1/acquire of the decision API for this rule, or accept it"
	for i := range f.Rules {
		r := &f.Rules[i]
		for j, l := range r.LimitsGiven() {
			if l.Algorithm == "concurrency" {
				s.FollowKey(limitAt(r, fmt.Sprintf("rules[%d]", i), j), problem, remedy)
			}
		}
	}
}

// limitAt returns the path of a limit of a rule.
func limitAt(r *rules.Rule, rule string, i int) string {
	if r.Limit != nil {
		return rule + ".limit"
	}
	return fmt.Sprintf("%s.limits[%d]", rule, i)
}
