package spelling

import (
	"testing"

	"github.com/sluicehq/sluice/internal/faults"
)

// Methods that clients make up are one method in keys, and no request can have it.
func TestInventedMethodsAreOne(t *testing.T) {
	for method, want := range map[string]string{"GET": "GET", "PROPFIND": "PROPFIND", "PURGE": "PURGE", "MADE-UP": OtherMethod, "OTHER": OtherMethod, "": OtherMethod} {
		if got := Method(method); got != want {
			t.Errorf("Method(%q) is %q, want %q", method, got, want)
		}
	}
	if CheckMethod(OtherMethod) == (faults.Fault{}) {
		t.Error("a request can have the method that keys use for others")
	}
}
