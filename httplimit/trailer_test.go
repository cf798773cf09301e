package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// trailed responds with the trailers that a handler sees: the announced trailers, then all received trailers.
func trailed(w http.ResponseWriter, r *http.Request) {
	announced := fmt.Sprint(r.Trailer)
	body, err := io.ReadAll(iotest.OneByteReader(r.Body))
	fmt.Fprint(w, announced, " ", string(body), " ", r.Trailer, " ", err, " ", r.Header.Get("Sluice-Marked"))
}

// Clients may not send reserved headers as trailers either, announced or not, because some services
// turn trailers into headers.
func TestClientsCannotMarkInTrailers(t *testing.T) {
	forged := "Sluice-Marked: no\r\nsluice_degraded: no\r\nX-Less: no\r\nx.less: no\r\n"
	for _, c := range []struct{ name, announce, trailers, want string }{
		{"announced", "Trailer: X-Sum, Sluice-Marked, Sluice_Degraded, X-Less, X.Less\r\n", "X-Sum: 1\r\n" + forged, "map[X-Sum:[]] body map[X-Sum:[1]] <nil> "},
		{"others are announced", "Trailer: X-Sum\r\n", "X-Sum: 1\r\n" + forged, "map[X-Sum:[]] body map[X-Sum:[1]] <nil> "},
		{"none is announced", "", "X-Sum: 1\r\n" + forged, "map[] body map[X-Sum:[1]] <nil> "},
		{"nothing else", "", forged, "map[] body map[] <nil> "},
		{"none", "", "", "map[] body map[] <nil> "},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, err := memory.New(memory.Options{})
			if err != nil {
				t.Fatal(err)
			}
			own := policy.Rule{Name: "own", Limits: hourly(1), WhenLimited: policy.LimitedAction{Action: policy.Degrade, RequestHeader: map[string]string{"X-Less": "yes"}}}
			marks := policy.Rule{Name: "marks", Limits: hourly(1), WhenLimited: policy.LimitedAction{Action: policy.Mark}}
			slow := policy.Rule{Name: "slow", MaxWait: time.Minute, Limits: []*sluice.Limit{sluice.MustLimit("slow", sluice.LeakyBucket{Rate: sluice.Per(1, 20*time.Millisecond), Queue: 10})}}
			s := served(t, wrap(t, ruled(t, store, httplimit.PolicyOptions{}, own, marks, slow), httplimit.Options{}, http.HandlerFunc(trailed)))
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for _, mark := range []string{"", "marks"} {
				if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"+c.announce+"\r\n4\r\nbody\r\n0\r\n"+c.trailers+"\r\n"); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || string(text) != c.want+mark {
					t.Errorf("the handler saw %s, %v; want %s", text, err, c.want+mark)
				}
			}
		})
	}
}
