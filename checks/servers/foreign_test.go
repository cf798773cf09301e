package servers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// Another program has written to the keys of two states. A rule that denies while the store fails denies then, and
// a rule that lets pass does so. The log has the reason, the values stay, and other keys are decided by the store.
func TestForeignStatesOfAServer(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := serve(t, fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", redis.Addr())+`
rules:
  - {name: shut, match: {path: /shut/*}, key: path, limit: {algorithm: token_bucket, rate: 5/h}, on_store_error: deny}
  - {name: open, match: {path: /open/*}, key: path, limit: {algorithm: sliding_log, rate: 5/h}, on_store_error: allow}
`)
	get := func(path string, want int) {
		t.Helper()
		if got, text := s.request("proxy", http.MethodGet, path, ""); got != want {
			t.Errorf("%s answers %d, want %d: %s", path, got, want, text)
		}
	}
	get("/shut/a", http.StatusOK)
	get("/open/a", http.StatusOK)
	reply, err := redis.Do(t.Context(), "KEYS", "sluice{/*")
	keys, _ := reply.([]any)
	if err != nil || len(keys) != 2 {
		t.Fatalf("the keys are %v, %v", keys, err)
	}
	for _, key := range keys {
		for _, command := range [][]string{{"DEL", key.(string)}, {"HSET", key.(string), "field", "value"}} {
			if _, err := redis.Do(t.Context(), command...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 { // more than open a breaker
		get("/shut/a", http.StatusServiceUnavailable)
		get("/open/a", http.StatusOK)
	}
	for _, want := range []int{200, 200, 200, 200, 200, 429} {
		get("/shut/b", want)
	}
	for _, key := range keys {
		if n, err := redis.Int(t.Context(), "HLEN", key.(string)); err != nil || n != 1 {
			t.Errorf("%v was overwritten: %d, %v", key, n, err)
		}
	}
	process.Eventually(t, "the log has the reason", func() bool { return strings.Contains(s.Log(), "holds something else than a state") })
}
