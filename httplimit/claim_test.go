package httplimit_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// bearer returns the header of a token with a payload. Nobody checks its signature.
func bearer(payload string) string {
	return "Authorization: Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

// A claim is read from one well-formed bearer token, and from nothing else.
func TestBearerClaim(t *testing.T) {
	for _, c := range []struct {
		headers []string
		name    string
		want    string
		ok      bool
	}{
		{[]string{bearer(`{"sub":"alice","tier":"gold"}`)}, "sub", "alice", true},
		{[]string{bearer(`{"sub":"alice","https://x.example/tier":"gold"}`)}, "https://x.example/tier", "gold", true},
		{[]string{bearer(`{"sub":"a\u00e9\n"}`)}, "sub", "aé\n", true},
		{[]string{bearer(`{"tenant":12345678901234567890}`)}, "tenant", "12345678901234567890", true},
		{[]string{bearer(`{"beta":true}`)}, "beta", "true", true},
		{[]string{bearer(`{"sub":""}`)}, "sub", "", true},
		{[]string{bearer(`{"sub":"alice"}`)}, "Sub", "", false},
		{[]string{bearer(`{"sub":null}`)}, "sub", "", false},
		{[]string{bearer(`{"sub":{"a":1}}`)}, "sub", "", false},
		{[]string{bearer(`{"aud":["a","b"]}`)}, "aud", "", false},
		{[]string{bearer(`["sub"]`)}, "sub", "", false},
		{[]string{bearer(`{"sub":"alice"`)}, "sub", "", false},
		{[]string{strings.Replace(bearer(`{"sub":"alice"}`), "Bearer", "bEARER ", 1)}, "sub", "alice", true},
		{[]string{strings.Replace(bearer(`{"sub":"alice"}`), "Bearer", "Basic", 1)}, "sub", "", false},
		{[]string{strings.TrimSuffix(bearer(`{"sub":"alice"}`), ".c2ln")}, "sub", "", false},
		{[]string{bearer(`{"sub":"alice"}`) + ".more"}, "sub", "", false},
		{[]string{"Authorization: Bearer a.%%%.c"}, "sub", "", false},
		{[]string{bearer(`{"sub":"` + strings.Repeat("x", 17<<10) + `"}`)}, "sub", "", false},
		// The gateway may have verified the other token.
		{[]string{bearer(`{"sub":"alice"}`), bearer(`{"sub":"bob"}`)}, "sub", "", false},
		{nil, "sub", "", false},
	} {
		if got, ok := httplimit.BearerClaim(get("/", c.headers...), c.name); got != c.want || ok != c.ok {
			t.Errorf("%s of %.80v: %q, %v", c.name, c.headers, got, ok)
		}
	}
}

// A token whose claims some services read, and Sluice does not, is neither missing nor another key.
func TestClaimsOfOneToken(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{
		Name: "user", Key: []policy.Part{policy.Claim("sub").IfMissing(policy.MissingSkip)}, Limits: hourly(1),
	})
	payload := func(text string) string {
		return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".c2ln"
	}
	token := payload(`{"sub":"alice"}`)
	if v := d.Decide(get("/", "Authorization: Bearer "+token)); !v.Allowed() || len(v.Results) != 1 {
		t.Fatalf("the first request: %s", v.String())
	}
	head, rest, _ := strings.Cut(token, ".")
	claims, signature, _ := strings.Cut(rest, ".")
	for _, header := range []string{
		"Bearer " + token, "bearer  " + token, "Bearer\t" + token, "BEARER \t " + token, "Bearer " + token + " ", // one key
		token, "Token " + token, "JWT " + token, "DPoP " + token, // services that are lenient about the scheme
		"Bearer " + head + "." + claims + "=." + signature, "Bearer " + head + "." + claims + "==." + signature, "Bearer " + head + ".!" + claims + "." + signature,
		"Bearer " + token + "," + token, "Bearer " + token + " x", "Bearer \xa0" + token, "Bearer " + token + "\x0b", "Bearer \"" + token + "\"", "Bearer: " + token, "Bearer=" + token,
		"Bearer " + payload(`{"sub":"alice"}{}`), "Bearer " + payload(`{"sub":"alice","x":"`+strings.Repeat("x", 17<<10)+`"}`),
	} {
		if v := d.Decide(get("/", "Authorization: "+header)); v.Allowed() {
			t.Errorf("%.80q escapes the limit: %s", header, v.String())
		}
	}
	for _, header := range []string{"Basic YTpi", "Bearer opaque", "Bearer a.b.c", "opaque", "Bearer " + payload(`{"iss":"x"}`)} {
		if v := d.Decide(get("/", "Authorization: "+header)); !v.Allowed() || len(v.Results) != 0 {
			t.Errorf("%q has no such claim, and got %s", header, v.String())
		}
	}
}

// Rules can count by a claim, and by values that the program computes.
// Tokens do not count where the program finds the claims itself.
func TestClaimsOfTheProgram(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{Claim: func(*http.Request, string) (string, bool) { return "verified", true }},
		policy.Rule{Name: "user", Key: []policy.Part{policy.Claim("sub"), policy.Header("X-Plan")}, Limits: hourly(1)})
	for i, lines := range [][]string{{bearer(`{"sub":"alice"}`)}, {bearer(`{"sub":"bob"}`)}, {bearer(`{"sub":"bob"}`), "X-Plan: free"}} {
		if v := d.Decide(get("/", lines...)); v.Allowed() != (i != 1) {
			t.Errorf("request %d with %q: %v, want only the second denied", i, lines, v)
		}
	}
}

func TestClaimsAndAttributes(t *testing.T) {
	clock := int64(1e6)
	rules := []policy.Rule{
		{Name: "user", Key: []policy.Part{policy.Claim("sub")}, Limits: hourly(2)},
		{Name: "tenant", Key: []policy.Part{policy.Attribute("tenant")}, Limits: hourly(3), Match: policy.Match{Attributes: []policy.ValueMatch{{Name: "tenant"}}}},
	}
	for _, c := range []struct {
		name string
		o    httplimit.PolicyOptions
		want map[string]int64 // remaining units of each matching rule
	}{
		{"the token's", httplimit.PolicyOptions{}, map[string]int64{"user": 1}},
		{"the program's", httplimit.PolicyOptions{
			Claim:     func(*http.Request, string) (string, bool) { return "verified", true },
			Attribute: func(r *http.Request, name string) (string, bool) { return r.Host, name == "tenant" },
		}, map[string]int64{"user": 1, "tenant": 2}},
		{"only an attribute", httplimit.PolicyOptions{
			Attribute: func(r *http.Request, name string) (string, bool) { return r.Host + "2", name == "tenant" },
		}, map[string]int64{"user": 0, "tenant": 2}},
	} {
		d := ruled(t, storeAt(t, &clock), c.o, rules...)
		if c.name == "only an attribute" {
			d = ruled(t, d.Store(), c.o, rules...)
			first := d.Decide(get("/", bearer(`{"sub":"alice"}`)))
			if !first.Allowed() {
				t.Error("the first was denied")
			}
			c.want["tenant"]--
		}
		v := d.Decide(get("/", bearer(`{"sub":"alice"}`)))
		got := map[string]int64{}
		for i := range v.Results {
			got[v.Results[i].Rule.Name] = v.Results[i].Decision.Remaining
		}
		if len(got) != len(c.want) || got["user"] != c.want["user"] || got["tenant"] != c.want["tenant"] {
			t.Errorf("%s: left %v; want %v", c.name, got, c.want)
		}
	}
}
