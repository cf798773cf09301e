package policy

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckMethod(t *testing.T) {
	for _, method := range []string{"GET", "POST", "M-SEARCH", "MADE_UP", "X1", "!"} {
		if err := CheckMethod(method); err != nil {
			t.Errorf("%q: %v", method, err)
		}
	}
	for _, method := range []string{"", "get", "Post", "OPTIONs", "made-up", "PO ST", "POST ", "GET /x", "P\u00d6ST", "A\x00", strings.Repeat("A", maxMethod+1)} {
		err := CheckMethod(method)
		var bad *AttributeError
		if !errors.As(err, &bad) || bad.Attribute != "method" {
			t.Errorf("%q: %v", method, err)
		}
	}
}

func TestCleanMethod(t *testing.T) {
	for method, want := range map[string]string{"GET": "GET", "PROPFIND": "PROPFIND", "PURGE": "PURGE", "MADE-UP": OtherMethod, "OTHER": OtherMethod, "": OtherMethod} {
		if got := CleanMethod(method); got != want {
			t.Errorf("CleanMethod(%q) is %q, want %q", method, got, want)
		}
	}
	if CheckMethod(OtherMethod) == nil {
		t.Error("a request can have the method that keys use for others")
	}
}
