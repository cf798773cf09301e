package main

import (
	"errors"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
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
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"skip","Package":"p","Test":"TestB"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}`,
				`{"Action":"pass","Package":"p","Elapsed":0.5}`,
			},
			want: []string{"ok    p: 1 passed (0.5 s, cached)\n", "\n1 passed, 0 failed\n"},
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
			stream := strings.Join(tc.events, "\n") + "\n"
			for half := range 2 { // in two pieces, cut anywhere
				cut := len(stream) / 3
				if _, err := s.Write([]byte([]string{stream[:cut], stream[cut:]}[half])); err != nil {
					t.Fatal(err)
				}
			}
			s.broken("m", tc.err)
			if ok := s.close(); ok != tc.ok {
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
