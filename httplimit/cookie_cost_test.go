package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// TestLongCookies reads a cookie from a long header, in which many others could be hidden.
func TestLongCookies(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Cookie", strings.Repeat(",plan=", 40_000)+strings.Repeat(" ", 500_000)+";x=1")
	began := time.Now()
	found := httplimit.Attributes(r, nil).Values.(interface {
		Read(s policy.Source, name string) policy.Found
	}).Read(policy.FromCookie, "plan")
	if found.Count == policy.CountNone || found.Count == policy.CountOne {
		t.Error("the hidden cookies were not found")
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("one cookie took %v to read", took)
	}
}
