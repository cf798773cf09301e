package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// Names that two tests have, names that promise nothing, and messages without words are found; other tests are not.
func TestFindsTestsThatSayNothing(t *testing.T) {
	repository := fstest.MapFS{
		"a/a_test.go": {Data: []byte(`package a
func TestStaysDenied(t *testing.T) { t.Errorf("%d are admitted, want %d", 1, 2) }
func TestOptions(t *testing.T) { t.Fatalf("%+v, %v", 1, 2) }
// TestErrors have remedies.
func TestErrors(t *testing.T) { t.Error(fmt.Errorf("%w: %v", err, 1)) }
// FuzzErrors have remedies.
func FuzzErrors(f *testing.F) {}
func TestValuesAreNoWords(t *testing.T) { t.Error(1, 2); t.Fatal(v.String()); t.Error("sum", 3); t.Fatal(ctx.Err()); t.Error(writeErr) }
`)},
		"b/b_test.go":          {Data: []byte("package b\nfunc TestStaysDenied(t *testing.T) {}\nfunc TestMain(m *testing.M) {}\n")},
		"b/testdata/c_test.go": {Data: []byte("package c\nfunc TestStaysDenied(t *testing.T) {}\n")},
	}
	got, err := check(repository)
	want := []string{
		"a/a_test.go:3:1: TestOptions promises nothing", "a/a_test.go:5:1: TestErrors promises nothing",
		"a/a_test.go:3:34: a message has only values", "a/a_test.go:8:43: a message has only values", "a/a_test.go:8:58: a message has only values",
		"b/b_test.go:2:1: TestStaysDenied is also in a/a_test.go:2:1",
	}
	if err != nil || len(got) != len(want) {
		t.Fatalf("the findings are %q, %v; want %d", got, err, len(want))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("finding %d is %q, want %q", i, got[i], want[i])
		}
	}
}
