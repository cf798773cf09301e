package threats

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestBodiesThatNobodyReads sends ten requests in the body of another one to Python's http.server, which reads no bodies of
// these methods. They do not run.
func TestBodiesThatNobodyReads(t *testing.T) {
	w := worldFor(t)
	at := slices.IndexFunc(w.services, func(s *protected) bool { return s.name == "unread" })
	if at < 0 {
		t.Fatal("there is no service that leaves bodies unread")
	}
	if _, err := w.settle(); err != nil {
		t.Fatal(err)
	}
	inner := strings.Repeat(hidden, 10)
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
		for _, body := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		} {
			text := method + " /public/outer HTTP/1.1\r\nHost: www.example.com\r\nX-Case: outer\r\n" + body
			if _, err := w.services[at].attack([]byte(text)); err != nil {
				t.Fatal(err)
			}
			all, err := w.settle()
			if err != nil {
				t.Fatal(err)
			}
			served := 0
			for _, r := range all {
				if r.Case == "outer" {
					served++
				}
				if slices.Contains(r.Ran, "admin") {
					t.Errorf("%s ran %s %s from a body", method, r.Method, r.Path)
				}
			}
			if served != 1 {
				t.Errorf("%s: the service got %d requests", method, served)
			}
		}
	}
}
