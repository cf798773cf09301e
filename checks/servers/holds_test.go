package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// TestHoldsOutliveTheirServer: a server dies by SIGKILL with reservations that are to be given back, and with one that is not.
// After their time, the other server finds the units of the former again, to the unit. What was settled before stays.
func TestHoldsOutliveTheirServer(t *testing.T) {
	t.Parallel()
	config := fmt.Sprintf(`store: {redis: {addresses: ['%s']}}
on_store_error: deny
rules:
  - name: tokens
    key: "header:X-Tenant"
    limits: [{algorithm: token_bucket, rate: 1000/30d}, {algorithm: fixed_window, rate: 5000/30d}]
`, redistest.Start(t).Addr())
	dying, other := serve(t, config), serve(t, config)
	type answer struct {
		Allowed bool
		Token   string
		Limits  []struct{ Remaining int64 }
	}
	call := func(s *server, path, body string) (a answer) {
		t.Helper()
		status, text := s.request("api", http.MethodPost, path, body)
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
			t.Fatalf("%s answers %d %s", path, status, text)
		}
		return a
	}
	reserve := func(s *server, cost int, more string) answer {
		t.Helper()
		return call(s, "/v1/reserve", fmt.Sprintf(`{"rule": "tokens", "key": "ann", "cost": %d%s}`, cost, more))
	}
	const held = `, "give_back": true, "ttl_ms": 1000`
	settled := reserve(dying, 100, held)
	call(dying, "/v1/settle", fmt.Sprintf(`{"token": %q, "cost": 70}`, settled.Token))
	for range 8 {
		if !reserve(dying, 100, held).Allowed {
			t.Fatal("a reservation is denied")
		}
	}
	if !reserve(dying, 50, "").Allowed || reserve(other, 100, held).Allowed {
		t.Fatal("920 of 1000 are taken")
	}
	dying.Kill()
	// Until the holds have ended, the units are taken; then all 880 are there at once, and no more.
	var back answer
	process.Eventually(t, "the units of the dead server", func() bool {
		back = reserve(other, 880, held)
		return back.Allowed
	})
	if back.Limits[0].Remaining != 0 || back.Limits[1].Remaining != 4000 {
		t.Errorf("after 70 settled, 50 kept and 880 reserved: %+v", back.Limits)
	}
	call(other, "/v1/settle", fmt.Sprintf(`{"token": %q, "cost": 0}`, back.Token))
	if last := reserve(other, 881, held); last.Allowed {
		t.Errorf("881 of 880: %+v", last)
	}
}
