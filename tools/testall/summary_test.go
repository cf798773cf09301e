package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The summary counts tests, and shows what failed and why.
func TestSummaryShowsWhatFailed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events []string
		err    error // of go test
		want   []string
		not    []string
		ok     bool
	}{
		{
			name: "subtests and skipped tests are not counted",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/one"}`,
				`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.4}`,
				`{"Action":"skip","Package":"p","Test":"TestB"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}`,
				`{"Action":"pass","Package":"p","Elapsed":0.5}`,
			},
			want: []string{"ok    p: 1 passed (0.5 s, cached)\n", "The slowest tests:\n    0.4 s  p TestA\n\nProcessor time:\n      1 s  m\n\n1 passed, 0 failed\n"},
			not:  []string{"quiet"},
			ok:   true,
		},
		{
			name: "a failed test shows its output and its subtests'",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA/one","Output":"got 3\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/one"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			err:  errors.New("exit status 1"),
			want: []string{"got 3\n", "FAIL  p: 0 passed, 1 failed", "\n0 passed, 1 failed\n"},
		},
		{
			name: "a program that dies is one failure",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			err:  errors.New("exit status 1"),
			want: []string{"panic: no\n", "\n0 passed, 1 failed\n"},
		},
		{
			name: "a build that fails is one failure",
			events: []string{
				`{"Action":"build-output","ImportPath":"p","Output":"p.go:1:1: undefined\n"}`,
				`{"Action":"build-fail","ImportPath":"p"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			err:  errors.New("exit status 1"),
			want: []string{"undefined\n", "\n0 passed, 1 failed\n"},
		},
		{
			name:   "an error without an event is one failure",
			events: []string{"go: no modules"},
			err:    errors.New("exit status 1"),
			want:   []string{"go: no modules\n", "FAIL  m: go test: exit status 1\n", "\n0 passed, 1 failed\n"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			events := s.stream("m")
			stream := strings.Join(tc.events, "\n") + "\n"
			for half := range 2 { // in two pieces, cut anywhere
				cut := len(stream) / 3
				if _, err := events.Write([]byte([]string{stream[:cut], stream[cut:]}[half])); err != nil {
					t.Fatal(err)
				}
			}
			events.end(tc.err, time.Second)
			if ok := s.close(10); ok != tc.ok {
				t.Errorf("close() = %v, want %v", ok, tc.ok)
			}
			got := "\n" + out.String()
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in:\n%s", want, got)
				}
			}
			for _, not := range tc.not {
				if strings.Contains(got, not) {
					t.Errorf("%q in:\n%s", not, got)
				}
			}
		})
	}
}

// TestSlowestTestsAreListedFirst: two runs whose events mix are one sum, and only the slowest tests
// are listed, the slowest first.
func TestSlowestTestsAreListedFirst(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	first, second := s.stream("first"), s.stream("second")
	for _, step := range []struct {
		to   *stream
		text string
	}{
		{first, `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}` + "\n" + `{"Action":"pa`},
		{second, `{"Action":"fail","Package":"q","Test":"TestB","Elapsed":3}` + "\n"},
		{first, `ss","Package":"p","Test":"TestC","Elapsed":2}` + "\n"},
	} {
		if _, err := step.to.Write([]byte(step.text)); err != nil {
			t.Fatal(err)
		}
	}
	first.end(nil, 7*time.Second)
	second.end(errors.New("exit status 1"), time.Second) // an event reported it
	if s.close(2) {
		t.Error("close() = true with a failed test")
	}
	want := "The slowest tests:\n    3.0 s  q TestB\n    2.0 s  p TestC\n\nProcessor time:\n      7 s  first\n      1 s  second\n\n2 passed, 1 failed\n"
	if got := out.String(); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
}
