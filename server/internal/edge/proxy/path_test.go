package proxy

import "testing"

// A path climbs if any service may find a segment of two dots in it.
func TestPathClimbsIfAnyServiceClimbs(t *testing.T) {
	for path, want := range map[string]bool{
		"/..": true, "/../x": true, "/x/..": true, "/x/../y": true, `/x\..\y`: true, `\..`: true, "/x/..;/y": true, "/x/..;a=b": true, "/%2e%2e": true, "/x/.%2E/y": true, "/x%2f..%2fy": true, "/x%5c..%5cy": true,
		"/%252e%252e/x": true, "/x%252f..": true, "..": true,
		"/": false, "/x/y": false, "/x/...": false, "/x/..y": false, "/y../x": false, "/x/.": false, "/x;/y": false, "/x;..": false, "/a.b/c..d": false, "/%2e": false, "/x%2fy": false, "/%25": false,
	} {
		if got := climbs(path); got != want {
			t.Errorf("climbs(%q) is %t, want %t", path, got, want)
		}
	}
}
