package driver

import (
	"fmt"

	"github.com/sluicehq/sluice"
)

// DenialError reports a batch that was denied although the store could decide only a part of it.
// For example, one of several servers did not answer. The denial holds whatever the decisions
// about the other requests would be: a fallback must not allow the batch.
type DenialError struct {
	// Denied holds the denials by their index in the batch, without denied shadows.
	Denied map[int]sluice.Decision
	// Err says why the other requests were not decided.
	Err error
}

func (e *DenialError) Error() string {
	return fmt.Sprintf("sluice: the batch is denied (%d of its requests), and the other requests were not decided: %v", len(e.Denied), e.Err)
}

// Denials returns Denied. It is how package sluice reads the error.
func (e *DenialError) Denials() map[int]sluice.Decision { return e.Denied }

// Unwrap returns Err.
func (e *DenialError) Unwrap() error { return e.Err }

// ShardError reports which requests of a batch a Sharded store could not decide, because their
// shards failed. The other shards work.
type ShardError struct {
	// Failed holds the positions of these requests in the batch.
	Failed []int
	// Err says why.
	Err error
}

func (e *ShardError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ShardError) Unwrap() error { return e.Err }
