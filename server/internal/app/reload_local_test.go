package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/store"
)

// The first rule that limits locally can come with a reload, with its share, and the last one can go. The store
// is down all the time, so each decision shows the fallback in force.
func TestReloadOfTheLocalFallback(t *testing.T) {
	t.Parallel()
	address := unusedAddress(t)
	with := func(local, fallback string) string {
		return free + fmt.Sprintf("store: {redis: {addresses: ['%s']%s}}\n", address, local) +
			"rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 8/30d}, on_store_error: " + fallback + "}]\n"
	}
	current := with("", "allow")
	r := start(t, parse(t, current), func(o *Options) {
		o.Load = func() (*config.File, error) { return config.Parse("test.yaml", []byte(current)) }
	})
	reload := func(local, fallback string) {
		t.Helper()
		current = with(local, fallback)
		if err := r.Reload(); err != nil {
			t.Fatalf("reload with %q and the fallback %s failed: %v", local, fallback, err)
		}
	}
	passes := func(want int) {
		t.Helper()
		got := 0
		for range 10 {
			if r.status(Proxy, "/") == http.StatusOK {
				got++
			}
		}
		if got != want {
			t.Errorf("%d of 10 pass, want %d", got, want)
		}
	}
	passes(10)
	reload(", local: {share: 1/4}", "local") // the first one
	passes(2)
	reload(", local: {share: 1/4}", "allow") // the last one goes, and its share stays
	passes(10)
	reload(", local: {share: 1/4}", "local") // what was used stays used
	passes(0)
	reload("", "deny") // the share goes too
	passes(0)
	reload(", local: {share: 1/2}", "local") // with another share, of which a quarter is used
	if got := r.engine.gate; got == nil || store.Share(r.reloads.file.Store.Redis) != (sluice.Share{Of: 1, Parts: 2}) {
		t.Errorf("the share is %v", store.Share(r.reloads.file.Store.Redis))
	}
	if res, text := r.send(Admin, http.MethodGet, "/readyz", ""); res.StatusCode != http.StatusOK || strings.Contains(text, "refused") {
		t.Errorf("/readyz answers %d %q", res.StatusCode, text)
	}
	// The size of the fallback's memory needs a restart, and the rest of the store too.
	current = with(", local: {share: 1/2, max_size: 1MiB}", "local")
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), "store.redis.local.max_size cannot change") {
		t.Errorf("another size: %v", err)
	}
}
