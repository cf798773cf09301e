package guard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
)

func TestGuardOptionsAreRefused(t *testing.T) {
	mem := newMemory(t, nil)
	good, err := guard.New(guard.Options{Store: mem})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    guard.Options
		want string
	}{
		{guard.Options{}, "Store is missing"},
		{guard.Options{Store: good}, "is a guard itself"},
		{guard.Options{Store: mem, Local: good}, "is a guard itself"},
		{guard.Options{Store: mem, Share: sluice.Share{Of: 2, Parts: 1}}, "guard: Options.Share: sluice: share is 2/1; give more than 0 and up to 1"},
		{guard.Options{Store: mem, Share: sluice.Share{Of: 1, Parts: 2_000_000}}, "of no more than 1000000 parts"},
		{guard.Options{Store: mem, Default: 4}, "Default is 4; give sluice.FallbackLocal, FallbackAllow or FallbackDeny"},
		{guard.Options{Store: mem, Default: sluice.FallbackLocal}, "there is no Local"},
		{guard.Options{Store: mem, Deadline: -1}, "Deadline is -1ns; give 1ms to 1m0s, or 0 for 50ms"},
		{guard.Options{Store: mem, Deadline: time.Hour}, "Deadline is 1h0m0s"},
		{guard.Options{Store: mem, Retry: time.Microsecond}, "Retry is 1µs"},
		{guard.Options{Store: mem, Slow: time.Second}, "Slow is 1s; give up to the deadline, which is 50ms"},
		{guard.Options{Store: mem, Slow: -1}, "Slow is -1ns"},
		{guard.Options{Store: mem, MaxInFlight: -1}, "MaxInFlight is -1; give 1 to 1048576, or 0 for 1024"},
		{guard.Options{Store: mem, Failures: -1}, "Failures is -1"},
		{guard.Options{Store: mem, MaxLeases: 1 << 30}, "MaxLeases is 1073741824"},
	} {
		s, err := guard.New(c.o)
		if s != nil || err == nil || !strings.HasPrefix(err.Error(), "guard: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestBreakerStatesInWords(t *testing.T) {
	var got []string
	for s := guard.StateClosed; s <= guard.StateHalfOpen; s++ {
		got = append(got, s.String())
	}
	if text := strings.Join(got, " "); text != "closed open half-open" {
		t.Errorf("got %s", text)
	}
}
