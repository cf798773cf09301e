package app

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/edge/api"
)

// The tokens of tests of scopes.
const (
	decides  = "the-token-that-decides"
	reads    = "the-token-that-reads-x"
	operates = "the-token-that-operates"
)

// secured has a token of each scope.
func secured(o *Options) { o.APIToken, o.ReadToken, o.Token = decides, reads, operates }

// scopesOfDocument returns the scopes of the calls that the OpenAPI document describes, by method and path.
func scopesOfDocument(t *testing.T) map[string]access.Scope {
	t.Helper()
	var document struct {
		Security []map[string][]string
		Paths    map[string]map[string]any
	}
	if err := yaml.Unmarshal(api.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	scopes := map[string]access.Scope{"apiToken": access.Decide, "readToken": access.Read, "adminToken": access.Operate}
	calls := map[string]access.Scope{}
	for path, methods := range document.Paths {
		for method, x := range methods {
			call, ok := x.(map[string]any)
			if !ok {
				continue // a text about the path
			}
			of := access.Scope(0)
			add := func(name string) { of |= scopes[name] }
			if list, ok := call["security"].([]any); ok {
				for _, one := range list {
					for name := range one.(map[string]any) {
						add(name)
					}
				}
			} else {
				for _, one := range document.Security {
					for name := range one {
						add(name)
					}
				}
			}
			calls[strings.ToUpper(method)+" "+path] = of
		}
	}
	return calls
}

// TestScopesOfEachCall makes each call of the OpenAPI document, and each call of the table, with each token.
func TestScopesOfEachCall(t *testing.T) {
	t.Parallel()
	text := strings.Replace(free, "admin:", "json: '127.0.0.1:0', admin:", 1) + overridable
	all, someOpen := start(t, parse(t, text), secured), start(t, parse(t, text), func(o *Options) { o.ReadToken, o.Token = reads, operates })
	documented := scopesOfDocument(t)
	if len(documented) < 20 {
		t.Fatalf("the document describes %d calls", len(documented))
	}
	needs := map[string]access.Scope{}
	for _, of := range access.AllCalls() {
		for _, call := range of.Calls {
			needs[call] = of.Needs
		}
	}
	for name, of := range documented {
		// An operator may make every call, so the document lists its token everywhere.
		if want := needs[name] | access.Operate; of != want {
			t.Errorf("%s: the document lets %s call, and the table %s", name, of, want)
		}
	}
	for name, need := range needs {
		method, path, _ := strings.Cut(name, " ")
		path = strings.Replace(path, "{rule}", "tenants", 1)
		listeners := []string{API, Admin}
		switch {
		case path == "/json":
			listeners = []string{JSON}
		case documented[name] == 0:
			listeners = []string{Admin}
		case !slices.Contains([]string{"/v1/peek", "/v1/reset", "/v1/bans", "/v1/overrides", "/v1/keys", "/v1/hybrid", "/v1/pressure", "/v1/pressure/tenants"}, path):
			listeners = []string{API}
		}
		for _, listener := range listeners {
			for token, has := range map[string]access.Scope{
				"": 0, "wrong-token-123456": 0, decides: access.Decide, reads: access.Read, operates: access.Decide | access.Read | access.Operate,
			} {
				for i, r := range []*running{all, someOpen} {
					if i == 1 && (listener == JSON || listener == API && need&access.Decide != 0 || token == decides) {
						continue // it is open to programs of this machine, and the token does not exist
					}
					res, body := r.send(listener, method, path, "", "Authorization", "Bearer "+token)
					switch got := res.StatusCode; {
					case has == 0 && (got != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") == ""):
						t.Errorf("%s at %s with the token %q is answered %d %s", name, listener, token, got, body)
					case has != 0 && has&need == 0 && (got != http.StatusForbidden || !strings.Contains(body, "lacks the scope "+need.String()) ||
						!strings.Contains(res.Header.Get("WWW-Authenticate"), "insufficient_scope")):
						t.Errorf("%s at %s with %s is answered %d %s, and needs %s", name, listener, has, got, body, need)
					case has&need != 0 && (got == http.StatusUnauthorized || got == http.StatusForbidden):
						t.Errorf("%s at %s with %s, which has %s, is answered %d %s", name, listener, has, need, got, body)
					}
				}
			}
		}
	}
	// A call that nobody put into the table is for operators, where operators call.
	for token, want := range map[string]int{decides: 403, reads: 403, operates: 404} {
		if got := all.status(Admin, "/v1/nothing", "Authorization", "Bearer "+token); got != want {
			t.Errorf("an unknown call at the admin listener is answered %d to %s, want %d", got, token, want)
		}
	}
}

// TestReadTokenSeesNoValues: callers that only read see which keys are limited, by their digests.
func TestReadTokenSeesNoValues(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+overridable), secured)
	for range 6 {
		r.send(API, http.MethodPost, "/v1/check", `{"rule": "tenants", "key": ["acme"]}`, "Authorization", "Bearer "+decides)
	}
	for token, sees := range map[string]bool{reads: false, operates: true} {
		for _, listener := range []string{API, Admin} {
			_, body := r.send(listener, http.MethodGet, "/v1/keys?rule=tenants", "", "Authorization", "Bearer "+token)
			if strings.Contains(body, "acme") != sees || !strings.Contains(body, `"digest":"`) || !strings.Contains(body, `"allowed":false`) {
				t.Errorf("at %s, the token %s gets %s", listener, token, body)
			}
		}
	}
}

// TestScopesPage: the page about the decision API has the table of scopes.
func TestScopesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range access.AllCalls() {
		if row := fmt.Sprintf("| %s | `%s` |", of.Needs, strings.Join(of.Calls, "`, `")); !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/api.md lacks the row\n%s", row)
		}
	}
}
