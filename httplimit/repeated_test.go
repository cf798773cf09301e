package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// Services disagree about which value they read. Only a request that all of them read alike has a key.
func TestOneValueForAll(t *testing.T) {
	const missing, repeated = "missing", "repeated"
	query := func(q string) *http.Request {
		r := get("/")
		r.URL.RawQuery = q // as it came
		return r
	}
	for _, c := range []struct {
		r    *http.Request
		part policy.Part
		want string
	}{
		{query("user_id=a"), policy.Query("user_id"), "a"},
		{query("x=1&user_id=a&y=2&"), policy.Query("user_id"), "a"},
		{query("user%5fid=a"), policy.Query("user_id"), "a"},
		{query("user_id=a+b%2Bc"), policy.Query("user_id"), "a b+c"},
		{query("user_id=a,b"), policy.Query("user_id"), "a,b"},
		{query("user_id="), policy.Query("user_id"), missing},
		{query("user_id"), policy.Query("user_id"), missing},
		{query("users_id=a&user_idx=b&id=c&x=user_id=d"), policy.Query("user_id"), missing},
		{query("user_id=a&user_id=b"), policy.Query("user_id"), repeated},
		{query("user_id=a&user_id=a"), policy.Query("user_id"), repeated},
		{query("user_id=a&user_id"), policy.Query("user_id"), repeated},
		{query("user_id=a&%75ser_id=b"), policy.Query("user_id"), repeated},
		{query("user_id[]=a"), policy.Query("user_id"), repeated},
		{query("user_id=a&user_id[]=b"), policy.Query("user_id"), repeated},
		{query("user_id%5B0%5D=b"), policy.Query("user_id"), repeated},
		{query("user_id[x]=b"), policy.Query("user_id"), repeated},
		{query("user.id=a"), policy.Query("user_id"), repeated},
		{query("user+id=a"), policy.Query("user_id"), repeated},
		{query("user[id=a"), policy.Query("user_id"), repeated},
		{query("+user_id=a"), policy.Query("user_id"), repeated},
		{query("user_id%00x=a"), policy.Query("user_id"), repeated},
		{query("User_ID=a"), policy.Query("user_id"), repeated},
		{query("x=1;user_id=a"), policy.Query("user_id"), repeated},
		{query("user_id=a;b"), policy.Query("user_id"), repeated},
		{query("user_id=a;user_id=b"), policy.Query("user_id"), repeated},
		{query("x=1;y=2&user_id=a"), policy.Query("user_id"), "a"},
		{query("user_id=%zz"), policy.Query("user_id"), repeated},
		{query("user_id=%65v%e%zz%"), policy.Query("user_id").IfRepeated(policy.RepeatedLast), "ev%e%zz%"},
		{query("user_id=%65+%4&user_id=b"), policy.Query("user_id").IfRepeated(policy.RepeatedFirst), "e %4"},
		{query("user_id%=a"), policy.Query("user_id"), missing},
		{query("ids[]=a"), policy.Query("ids[]"), "a"},
		{query("ids[]=a&ids[]=b"), policy.Query("ids[]"), repeated},

		{query("user_id=;a"), policy.Query("user_id"), repeated},

		{get("/", "Cookie: a=1; session=s; b=2"), policy.Cookie("session"), "s"},
		{get("/", `Cookie: session="s"`), policy.Cookie("session"), "s"},
		{get("/", "Cookie: session=%73"), policy.Cookie("session"), "s"},
		{get("/", "Cookie: session = s"), policy.Cookie("session"), "s"},
		{get("/", "Cookie: a=session; xsession=1; session"), policy.Cookie("session"), missing},
		{get("/", "Cookie: session=s; session=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: session=s", "Cookie: session=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: a=1", "Cookie: session=t"), policy.Cookie("session"), "t"},
		{get("/", `Cookie: session="\163"`), policy.Cookie("session"), repeated},
		{get("/", `Cookie: session=s"`), policy.Cookie("session"), repeated},
		{get("/", `Cookie: a="x; session=t"`), policy.Cookie("session"), repeated},
		{get("/", "Cookie: a=1 session=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: a=1,session=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: a=1,session=t; session=s"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: SESSION=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: session[]=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: ,session = t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: a=1,\tSESSION\t=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: a=1 session \t =t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: x session=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: a=1,session=s x=1"), policy.Cookie("session").IfRepeated(policy.RepeatedLast), "s"},
		{get("/", "Cookie: \t session=t"), policy.Cookie("session"), "t"},
		{get("/", "Cookie: session=s x=1"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: session=s,x=1"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: session=s%20t%2Cx"), policy.Cookie("session"), "s t,x"},
		{get("/", "Cookie: session\xa0=t"), policy.Cookie("session"), repeated},
		{get("/", "Cookie: session=\xa0t"), policy.Cookie("session"), repeated},

		{get("/", "X-Plan: a, b"), policy.Header("X-Plan"), "a, b"},
		{get("/", "X-Plan: a", "x-plan: a"), policy.Header("X-Plan"), repeated},
		{get("/", "X-Plan: a", "x-plan: "), policy.Header("X-Plan"), repeated},
		{get("/", "X-Plan: eve\tv"), policy.Header("X-Plan"), "eve\tv"},
		{get("/", "X-Plan: eve "), policy.Header("X-Plan"), repeated}, // by a folded line
		{get("/", "X-Plan: \xa0eve"), policy.Header("X-Plan"), repeated},
		{get("/", "X-Plan: eve\x85"), policy.Header("X-Plan"), repeated},
		{get("/", "X-Plan: e\x1fve"), policy.Header("X-Plan"), repeated},
		{get("/", "X-Plan: an-honest-value\x7f"), policy.Header("X-Plan"), repeated},
		{get("/", "Authorization: bearer  T"), policy.Header("Authorization"), "Bearer T"},
		{get("/", "Authorization: Bearer T U"), policy.Header("Authorization"), repeated},
		{get("/", bearer(`{"sub":"ann"}`)), policy.Claim("sub"), "ann"},
		{get("/", bearer(`{"sub":"ann"}`), bearer(`{"sub":"bob"}`)), policy.Claim("sub"), repeated},
		{get("/", "Connection: X-Plan", "X-Plan: a"), policy.Header("X-Plan"), missing},
		{get("/", "Connection: keep-alive, x-plan", "X-Plan: a"), policy.Header("X-Plan"), missing},
		{get("/", "Connection: close", "Connection: ,\tCOOKIE ", "Cookie: session=s"), policy.Cookie("session"), missing},
		{get("/", "Connection: Authorization", bearer(`{"sub":"ann"}`)), policy.Claim("sub"), missing},
		{get("/", "Connection: X-Other", "X-Plan: a"), policy.Header("X-Plan"), "a"},
	} {
		store := &recordingStore{}
		v := ruled(t, store, httplimit.PolicyOptions{}, policy.Rule{Name: "r", Key: []policy.Part{c.part.IfMissing(policy.MissingDeny)}, Limits: hourly(1)}).Decide(c.r)
		got := map[sluice.Reason]string{sluice.ReasonMissingKey: missing, sluice.ReasonRepeatedKey: repeated}[v.Reason]
		if len(store.decided) == 1 {
			got = store.decided[0].Key.Text()
		}
		if got != c.want || got == repeated && denial.Status(&v) != http.StatusBadRequest {
			t.Errorf("%s of ?%s %v is %q; want %q", &c.part, c.r.URL.RawQuery, c.r.Header, got, c.want)
		}
	}
}

// A condition on a cookie holds for each value that some service reads.
func TestHiddenCookies(t *testing.T) {
	d := ruled(t, &recordingStore{}, httplimit.PolicyOptions{}, policy.Rule{
		Name: "free", Always: true, Match: policy.Match{Cookies: []policy.ValueMatch{{Name: "plan", OneOf: []string{"free"}}}},
	})
	for cookies, denied := range map[string]bool{
		"plan=free":               true,
		"plan=paid":               false,
		"plan=freeze":             false,
		"a=1; b=free":             false,
		",plan = free":            true,
		", plan=free":             true,
		"a=1,PLAN\t= free":        true,
		"a=1,plan=free x":         true,
		"x plan=free":             true,
		"xplan=free":              false,
		"a=1,xplan=free":          false,
		"a=1,plan":                false,
		"plan=free,x=1":           true,
		"plan=free x=1":           true,
		"plan\xa0=free":           true,
		"plan=\xa0free":           true,
		"\xa0plan=free":           true,
		"a=\xa0free; plan=paid":   false,
		"a=1, b=2; c=3; d=e, f=4": false,
	} {
		if v := d.Decide(get("/", "Cookie: "+cookies)); v.Allowed() == denied {
			t.Errorf("%q is decided as %s", cookies, v.String())
		}
	}
}

// Found a value allocates nothing, unless it has to be decoded.
func TestReadAllocatesNothing(t *testing.T) {
	r := get("/?a=1&key=x&b=2", "Cookie: a=1; session=s", "Authorization: Bearer "+strings.Repeat("t", 2000), "X-Plan: free")
	a := httplimit.Attributes(r, nil)
	for _, p := range []policy.Part{policy.Query("key"), policy.Cookie("session"), policy.Header("Authorization"), policy.Header("X-Plan"), policy.Header("X-None")} {
		if n := testing.AllocsPerRun(100, func() { a.Read(p.Source, p.Name) }); n > 0 {
			t.Errorf("%s: %v allocations", &p, n)
		}
	}
}

// A refusal names the part, and says that it has several values.
func TestProblemOfRepeatedParts(t *testing.T) {
	d := ruled(t, &recordingStore{}, httplimit.PolicyOptions{}, policy.Rule{Name: "r", Key: []policy.Part{policy.Query("k")}, Limits: hourly(1)})
	v := d.Decide(get("/?k=1&k=2"))
	if p := denial.NewProblem(&v); p.Status != http.StatusBadRequest || !strings.Contains(p.Detail, "several values") || !strings.Contains(p.Detail, " k,") {
		t.Errorf("the problem does not name part k and its several values: %+v", p)
	}
}

// seen responds with the headers and trailers that a handler sees and that a rule reads, in any spelling.
func seen(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for _, name := range []string{"X-Api-Key", "X_api_key", "X.api.key", "Authorization", "Cookie", "X_plan", "X_cost", "X_other"} {
			if lines, ok := h[name]; ok {
				fmt.Fprint(w, name, lines)
			}
		}
	}
}

// The service sees the value that the rules counted by, or none: other spellings, nominations in Connection
// and trailers are removed. Headers that no rule reads stay.
func TestServicesSeeWhatRulesRead(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules := []policy.Rule{
		{Name: "key", Key: []policy.Part{policy.Header("X-Api-Key"), policy.Claim("sub")}, Limits: hourly(1000), Cost: policy.Cost{Header: "X-Cost"}},
		{Name: "plan", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Plan"}}}, Limits: hourly(1000)},
	}
	handlers := map[string]http.Handler{
		"rules": wrap(t, ruled(t, store, httplimit.PolicyOptions{}, rules...), httplimit.Options{}, http.HandlerFunc(seen)),
		"key": wrap(t, keyed(t, httplimit.KeyOptions{
			Store: store, Limits: hourly(1000), Key: []policy.Part{policy.Header("X-Api-Key"), policy.Header("Authorization")},
		}), httplimit.Options{}, http.HandlerFunc(seen)),
	}
	for name, h := range handlers {
		address := served(t, h).Listener.Addr().String()
		for _, c := range []struct{ lines, body, want string }{
			{"X-Api-Key: a\r\n", "", "X-Api-Key[a]"},
			{"X-Api-Key: a\r\nX_Api_Key: b\r\nX.Api.Key: c\r\n", "", "X-Api-Key[a]"},
			{"X_Api_Key: b\r\n", "", ""},
			{"Connection: close, X-Api-Key\r\nX-Api-Key: a\r\nX_Other: o\r\n", "", "X_other[o]"},
			{"Connection: x-api-key\r\nX-Api-Key: a\r\nX_Api_Key: b\r\n", "", ""},
			{"Connection: Authorization, Cookie\r\nAuthorization: Bearer t\r\nCookie: a=b\r\n", "", "Cookie[a=b]"},
			{"Transfer-Encoding: chunked\r\nTrailer: X-Api-Key, X_Api_Key, X_Other\r\n", "0\r\nX-Api-Key: a\r\nX_Api_Key: b\r\nX_Other: o\r\n\r\n", "X_other[o]"},
			{"Transfer-Encoding: chunked\r\nX-Api-Key: a\r\n", "0\r\nX-Api-Key: b\r\nauthorization: c\r\n\r\n", "X-Api-Key[a]"},
		} {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+c.lines+"\r\n"+c.body)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			conn.Close()
			if err != nil || res.StatusCode != http.StatusOK || string(text) != c.want {
				t.Errorf("%s: of %q the handler saw %d %q, %v; want %q", name, c.lines+c.body, res.StatusCode, text, err, c.want)
			}
		}
	}
}

// A refusal because of an unclear token says which token would be read.
func TestProblemOfAnUnclearToken(t *testing.T) {
	v := policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonRepeatedKey, Missing: &policy.Part{Source: policy.FromClaim, Name: "sub"}}
	if p := denial.NewProblem(&v); !strings.Contains(p.Detail, "Remedy: send one Authorization header, with Bearer and one token of three parts in base64url, without = or spaces.") {
		t.Errorf("the detail does not say which token would be read: %s", p.Detail)
	}
}
