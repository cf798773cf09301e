package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Info returns the fields of one section of INFO.
func (s *Server) Info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.Text(ctx, "INFO", section)
	if err != nil {
		return nil, err
	}
	return fields(text), nil
}

// fields reads lines of the form name:value.
func fields(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// A CommandStat is what the server counted for one command since it started, or
// since CONFIG RESETSTAT.
type CommandStat struct {
	Calls    int64
	Time     time.Duration // processor time of the server, with what scripts call
	Rejected int64         // refused before they ran, as with OOM
	Failed   int64         // ended with an error
}

// CommandStats returns the fields of INFO commandstats, by the command's name in lower
// case.
func (s *Server) CommandStats(ctx context.Context) (map[string]CommandStat, error) {
	info, err := s.Info(ctx, "commandstats")
	if err != nil {
		return nil, err
	}
	all := make(map[string]CommandStat)
	for name, value := range info {
		command, ok := strings.CutPrefix(name, "cmdstat_")
		if !ok {
			continue
		}
		var stat CommandStat
		for field := range strings.SplitSeq(value, ",") {
			what, number, _ := strings.Cut(field, "=")
			n, err := strconv.ParseFloat(number, 64)
			if err != nil {
				return nil, fmt.Errorf("redistest: INFO commandstats says %q: %w", value, err)
			}
			switch what {
			case "calls":
				stat.Calls = int64(n)
			case "usec":
				stat.Time = time.Duration(n) * time.Microsecond
			case "rejected_calls":
				stat.Rejected = int64(n)
			case "failed_calls":
				stat.Failed = int64(n)
			}
		}
		all[command] = stat
	}
	return all, nil
}

// CPU is the processor time the server has used since it started.
func (s *Server) CPU(ctx context.Context) (time.Duration, error) {
	info, err := s.Info(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[name], 64)
		if err != nil {
			return 0, fmt.Errorf("redistest: INFO cpu says %s:%q: %w", name, info[name], err)
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum, nil
}

// KeysWithoutTTL returns the keys that would stay for ever. On a cluster, call it for each node.
func (s *Server) KeysWithoutTTL(ctx context.Context) ([]string, error) {
	const script = `
		local found = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			if redis.call('PTTL', key) == -1 then
				found[#found + 1] = key
			end
		end
		return found`
	v, err := s.Do(ctx, "EVAL_RO", script, "0")
	if err != nil {
		return nil, err
	}
	list, _ := v.([]any)
	keys := make([]string, len(list))
	for i, key := range list {
		keys[i] = fmt.Sprint(key)
	}
	return keys, nil
}

// CheckTTL fails a test if a key on some servers would stay for ever.
func CheckTTL(tb testing.TB, servers ...*Server) {
	tb.Helper()
	for _, s := range servers {
		if keys, err := s.KeysWithoutTTL(Within(tb, Soon)); err != nil || len(keys) > 0 {
			tb.Errorf("keys without a time to live at %s: %q, %v", s.Addr(), keys, err)
		}
	}
}
