package redistest

import (
	"context"
	"testing"
	"time"
)

// short bounds what is to be answered soon.
func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

// within fails the test if do takes longer than limit.
func within(t *testing.T, limit time.Duration, what string, do func() error) {
	t.Helper()
	begun := time.Now()
	if err := do(); err != nil {
		t.Fatalf("%s failed: %v", what, err)
	}
	if took := time.Since(begun); took > limit {
		t.Errorf("%s took %v, want %v at most", what, took, limit)
	}
}
