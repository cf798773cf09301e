package spoe

import (
	"time"

	"github.com/sluicehq/sluice/httplimit"
)

// decide decides about a reported request, carries the verdict out as far as HAProxy lets it, and returns the answer.
// The function decided is called as soon as the request only waits.
func (s *Server) decide(q *httplimit.Report, a *answer, decided func()) []byte {
	q.MethodOverride = s.o.MethodOverride
	began := time.Now()
	r, v := s.o.Decider.DecideReport(s.o.Context, q)
	took := time.Since(began)
	decided()
	denied := v.Refused != nil
	if !denied {
		admission, err := s.o.Gate.Enter(s.o.Context, &v)
		denied = err != nil
		admission.Leave(s.o.Context, httplimit.UnseenOutcome(r))
	}
	s.o.OnVerdict(&v, took)
	if v.Err != nil && !v.Abandoned() {
		s.o.OnError(v.Err)
	}
	a.verdict(s, r, &v, denied)
	return a.end()
}
