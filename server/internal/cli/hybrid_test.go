package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
)

// answeredBy runs a command against a server that answers a text, and returns what it prints.
func answeredBy(t *testing.T, answer, command string, args ...string) (out, problems, query string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RequestURI()
		_, _ = w.Write([]byte(answer))
	}))
	defer srv.Close()
	var printed, failed bytes.Buffer
	root := Root()
	root.SetArgs(append([]string{command, "--server", srv.URL}, args...))
	root.SetOut(&printed)
	root.SetErr(&failed)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return printed.String(), failed.String(), query
}

// The command shows what hybrid limits do, and the keys with granted units.
func TestHybridCommand(t *testing.T) {
	const answer = `{"limits": [
		{"rule": "hot", "limit": "hot", "bound": "never more than 1000 + 1000/s·t; up to 50 may be left unused", "local": 985, "cached": 10, "exact": 5, "excess": 0, "last_sync_ms": 80},
		{"rule": "idle", "limit": "idle/2", "bound": "never more than 500 in any minute; up to 25 may be left unused", "local": 0, "cached": 0, "exact": 0, "excess": 2}],
		"keys": [
		{"rule": "hot", "limit": "hot", "key": ["acme", "a b"], "digest": "0123456789abcdef", "escrow": 50, "holders": 2, "unspent": 20, "unreported": 5, "age_ms": 80, "till_ms": 1900},
		{"rule": "hot", "limit": "hot", "digest": "0123456789abcdef", "escrow": 8, "holders": 1, "unspent": 8, "unreported": 0, "age_ms": 20, "till_ms": 1980}], "more": true}`
	out, problems, query := answeredBy(t, answer, "hybrid", "hot", "--most", "2")
	const want = `LOCAL  KEPT  STORE  EXCESS  LAST SYNC  LIMIT   ADMITS
98.5%  1.0%  0.5%   0       80ms ago   hot     never more than 1000 + 1000/s·t; up to 50 may be left unused
-      -     -      2       never      idle/2  never more than 500 in any minute; up to 25 may be left unused

GRANTED  SERVERS  UNSPENT  UNREPORTED  AGE   ENDS IN  LIMIT  KEY
50       2        20       5           80ms  2s       hot    acme 'a b'
8        1        8        0           20ms  2s       hot    <0123456789abcdef>
`
	if out != want {
		t.Errorf("prints\n%s\nwant\n%s", out, want)
	}
	if problems != "there are more keys; --most lists up to 1000, and RULE the keys of one rule\n" {
		t.Errorf("warns %q", problems)
	}
	if query != "/v1/hybrid?most=2&rule=hot" {
		t.Errorf("requests %s", query)
	}
	if out, _, _ := answeredBy(t, `{"limits": [], "keys": []}`, "hybrid"); out != "no limit is hybrid\n" {
		t.Errorf("prints %q without hybrid limits", out)
	}
	if out, _, _ := answeredBy(t, answer, "hybrid", "--json"); out != answer+"\n" {
		t.Errorf("prints %q as JSON", out)
	}
}

// While the store does not answer, the list of limited keys says what decides.
func TestKeysNameTheFallback(t *testing.T) {
	for answer, want := range map[string]string{
		`{"keys": [], "degraded": true}`: "the store does not answer: on_store_error of each rule decides, also about keys that are not listed\n",
		`{"keys": []}`:                   "",
	} {
		if out, problems, query := answeredBy(t, answer, "keys", "--limited"); out != "no key is limited now\n" || problems != want || query != "/v1/keys?limited=true&most=100" {
			t.Errorf("%s: %s prints %q and warns %q; want %q", answer, query, out, problems, want)
		}
	}
}
