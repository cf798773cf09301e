package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
)

// keyed returns a KeyDecider, or fails the test.
func keyed(tb testing.TB, o httplimit.KeyOptions) *httplimit.KeyDecider {
	tb.Helper()
	d, err := httplimit.NewKeyDecider(o)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// wrap returns a handler limited by d, or fails the test.
func wrap(tb testing.TB, d httplimit.Decider, o httplimit.Options, next http.Handler) http.Handler {
	tb.Helper()
	m, err := httplimit.New(d, o)
	if err != nil {
		tb.Fatal(err)
	}
	return m.Wrap(next)
}
