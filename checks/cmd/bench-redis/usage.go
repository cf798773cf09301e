package main

import (
	"context"
	"time"

	"github.com/sluicehq/sluice/checks/redistest"
)

// usage is what a server has spent.
type usage struct {
	// process is the processor time of the whole process, as INFO cpu tells:
	// used_cpu_user and used_cpu_sys.
	process time.Duration

	// scripts is what INFO commandstats tells of evalsha and eval: the time
	// that passed in them, with the commands that the scripts call, which it
	// counts under their own names as well. It has no part in reading the call
	// and sending the reply.
	scripts time.Duration
	calls   int64 // of scripts
}

// readUsage asks the server.
func readUsage(ctx context.Context, s *redistest.Server) (usage, error) {
	process, err := s.CPU(ctx)
	if err != nil {
		return usage{}, err
	}
	stats, err := s.CommandStats(ctx)
	if err != nil {
		return usage{}, err
	}
	sha, source := stats["evalsha"], stats["eval"]
	return usage{process, sha.Time + source.Time, sha.Calls + source.Calls}, nil
}

// since returns what was spent after an earlier reading.
func (u usage) since(o usage) usage {
	return usage{u.process - o.process, u.scripts - o.scripts, u.calls - o.calls}
}
