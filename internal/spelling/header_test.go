package spelling

import "testing"

// Each name that a CGI program reads as X-Api-Key is alike, and no other name is.
func TestAliasesOfNames(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Api-Key": true, "X_Api_Key": true, "X.Api_key": true, "X-API-KEY": true, "X~Api!Key": true, "x*api'key": true,
		"X-Api-Kez": false, "XXApi-Key": false, "X-ApiKey": false, "X-Api-Key-": false, "": false, "X-Api1Key": false,
	} {
		if AlikeNames("X-Api-Key", name) != want || AlikeNames(name, "X-Api-Key") != want {
			t.Errorf("%q is like X-Api-Key: %v, want %v", name, !want, want)
		}
	}
	for _, digit := range []string{"X-1", "X-q"} { // these bytes differ by the bit of the case
		if AlikeNames(digit, "X-\x11") {
			t.Errorf("%q is like a name with another byte", digit)
		}
	}
}
