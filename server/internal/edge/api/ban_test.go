package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// bannable are rules whose keys can be banned, and one whose cannot.
const bannable = `
rules:
  - {name: login, match: {path: /login}, key: [client_ip, 'header:X-User'], limit: {algorithm: token_bucket, rate: 100/m}, ban: {by_hand: true}}
  - {name: strict, match: {path: /strict}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/h}, ban: {after: 1, for: [1m, 10m]}}
  - {name: plain, match: {path: /plain}, key: client_ip, limit: {algorithm: token_bucket, rate: 100/m}}
`

// operators may do what is for them.
func operators(o *Options) { o.Authorize = func(*http.Request) error { return nil } }

// bans makes a call about bans, with the answer in into.
func (s *service) bans(method, query, body string, into any) (status int, text string) {
	s.t.Helper()
	var sent io.Reader
	if body != "" {
		sent = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/v1/bans"+query, sent)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := s.described.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(all, into); err != nil {
			s.t.Fatalf("the answer is not JSON: %s: %v", all, err)
		}
	}
	return res.StatusCode, string(all)
}

func TestBansAKeyByHand(t *testing.T) {
	s := serve(t, bannable, operators)
	const ann = `{"path": "/login", "client_ip": "192.0.2.1", "headers": {"X-User": "ann"}}`
	s.want(true, "/v1/check", ann)
	if status, text := s.bans(http.MethodPost, "", `{"rule": "login", "key": ["192.0.2.1", "ann"], "for_ms": 3600000}`, nil); status != http.StatusOK {
		t.Fatalf("banning a key: %d %s", status, text)
	}
	if r := s.want(false, "/v1/check", ann); r.Reason != sluice.ReasonBanned.String() || r.RetryAfterMS == nil || *r.RetryAfterMS < 3_500_000 {
		t.Errorf("banned: %+v", r)
	}
	s.want(true, "/v1/check", strings.Replace(ann, "ann", "bob", 1))

	var page wire.Bans
	if status, text := s.bans(http.MethodGet, "", "", &page); status != http.StatusOK || len(page.Bans) != 1 || page.Next != "" {
		t.Fatalf("the list should have one ban: %d %s", status, text)
	}
	b := page.Bans[0]
	if b.Rule != "login" || b.Limit != "login" || fmt.Sprint(b.Key) != "[192.0.2.1 ann]" || !b.ByHand || b.LeftMS < 3_500_000 || b.LeftMS > 3_600_000 {
		t.Errorf("listed %+v", b)
	}
	for i, want := range []bool{true, false} {
		var end lifted
		if status, text := s.bans(http.MethodDelete, "", `{"rule": "login", "key": ["192.0.2.1", "ann"]}`, &end); status != http.StatusOK || end.Lifted != want {
			t.Errorf("lifting it, time %d: %d %s", i+1, status, text)
		}
	}
	s.want(true, "/v1/check", ann)
}

func TestListsBansThatDenialsLedTo(t *testing.T) {
	s := serve(t, bannable, operators)
	for i := range 25 {
		q := fmt.Sprintf(`{"rule": "strict", "key": "192.0.2.%d"}`, i)
		s.want(true, "/v1/check", q)
		s.want(false, "/v1/check", q)
	}
	seen := map[string]bool{}
	query := "?most=10"
	for pages := 0; ; pages++ {
		var page wire.Bans
		if status, text := s.bans(http.MethodGet, query, "", &page); status != http.StatusOK {
			t.Fatalf("page %d of the bans: %d %s", pages, status, text)
		}
		for _, b := range page.Bans {
			if b.Rule != "strict" || b.InRow != 1 || b.ByHand {
				t.Errorf("listed %+v", b)
			}
			seen[b.Key[0]] = true
		}
		if page.Next == "" {
			if pages < 2 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
		query = "?most=10&from=" + page.Next
	}
	if len(seen) != 25 {
		t.Errorf("%d bans are listed, want 25", len(seen))
	}
}

func TestRefusesBansThatAreNone(t *testing.T) {
	s := serve(t, bannable, operators)
	for _, x := range []struct {
		method, query, body string
		status              int
		field, says         string
	}{
		{http.MethodPost, "", `{"rule": "login", "key": ["192.0.2.1", "ann"]}`, 400, "for_ms", "length of the ban"},
		{http.MethodPost, "", `{"rule": "login", "key": ["192.0.2.1", "ann"], "for_ms": 0}`, 400, "for_ms", "from 1 to"},
		{http.MethodPost, "", `{"rule": "login", "key": ["192.0.2.1", "ann"], "for_ms": 3153600000001}`, 400, "for_ms", "from 1 to"},
		{http.MethodPost, "", `{"rule": "login", "key": ["192.0.2.1"], "for_ms": 1000}`, 400, "key", "one value for each of: client_ip, header:X-User"},
		{http.MethodPost, "", `{"rule": "logn", "key": ["192.0.2.1"], "for_ms": 1000}`, 400, "rule", "login, strict, plain"},
		{http.MethodPost, "", `{"key": ["192.0.2.1"], "for_ms": 1000}`, 400, "rule", "name the rule"},
		{http.MethodPost, "", `{"rule": "plain", "key": ["192.0.2.1"], "for_ms": 1000}`, 409, "rule", "by_hand: true"},
		{http.MethodPost, "", `{"rule": "plain", "key": ["192.0.2.1"], "for": "1h"}`, 400, "for", "did you mean"},
		{http.MethodDelete, "", `{"rule": "plain", "key": ["192.0.2.1"]}`, 409, "rule", "by_hand: true"},
		{http.MethodDelete, "", `{"rule": "login", "key": ["192.0.2.1", "ann"], "for_ms": 1}`, 400, "for_ms", "no field"},
		{http.MethodGet, "?most=0", "", 400, "?most", "1 to 1000"},
		{http.MethodGet, "?form=x", "", 400, "?form", "from and most"},
		{http.MethodGet, "?from=x", "", 400, "?from", "earlier page"},
		{http.MethodPut, "", `{}`, 405, "", "GET, POST, DELETE"},
	} {
		var p problem
		status, text := s.bans(x.method, x.query, x.body, &p)
		if status != x.status || p.Field != x.field || !strings.Contains(text, x.says) {
			t.Errorf("%s %s %s answers %d %s", x.method, x.query, x.body, status, text)
		}
	}
}

func TestBansNeedAuthorization(t *testing.T) {
	s := serve(t, bannable, nil)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if status, text := s.bans(method, "", `{"rule": "login", "key": ["192.0.2.1", "ann"], "for_ms": 1000}`, nil); status != http.StatusUnauthorized {
			t.Errorf("%s answers %d %s", method, status, text)
		}
	}
	// On another listener, that listener authorizes.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/bans", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.api.Operations()["/v1/bans"].ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("the handler for the admin listener answers %d", w.Code)
	}
}
