package policyfile

import "fmt"

// warnRedisClients reports the limits whose leases clients of Redis cannot hold, because no command ends a lease.
func (f *File) warnRedisClients(s *source) {
	if f.Listen.RESP.Off() {
		return
	}
	const problem, remedy = "is a concurrency limit, and SLUICE.CHECK at listen.resp releases each lease after the decision", "have programs call /v1/acquire of the decision API for this rule, or accept it"
	for i := range f.Rules {
		for j, l := range f.Rules[i].limitsGiven() {
			if l.Algorithm != "concurrency" {
				continue
			}
			where := fmt.Sprintf("rules[%d].limits[%d]", i, j)
			if f.Rules[i].Limit != nil {
				where = fmt.Sprintf("rules[%d].limit", i)
			}
			s.followKey(where, problem, remedy)
		}
	}
}
