package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Report is what Check has found.
type Report struct {
	// Server is the program and its version, such as "redis 7.0.15".
	Server string
	// Warnings say what works, and will not always. Empty is good.
	Warnings []string
}

// The oldest versions that have all that the scripts need: 5.0 lets a script that asks
// for the time write.
const oldestMajor = 5

// Check asks the server whether it can hold limits, and decides one under a key of its
// own. It is for the start of a program. An error means that the store cannot work as it
// is, and says what to do.
func (s *Store) Check(ctx context.Context) (Report, error) {
	text, err := s.client.Info(ctx)
	if err != nil {
		return Report{}, explain(err)
	}
	in := readInfo(text)
	r := Report{Server: in.server()}
	if major := in.major(); major > 0 && major < oldestMajor {
		return r, fmt.Errorf("redisstore: the server is %s; version %d.0 or later is needed", r.Server, oldestMajor)
	}
	switch clustered := in["cluster_enabled"] == "1"; {
	case clustered && !s.cluster:
		return r, errors.New("redisstore: the server is a node of a cluster, and the client is not one for clusters; give a cluster client")
	case !clustered && s.cluster && in["cluster_enabled"] != "":
		r.Warnings = append(r.Warnings, "the client is one for clusters, and the server is not in a cluster: batches take a call for each slot for nothing")
	}
	if in["role"] == "slave" && !s.cluster {
		return r, errors.New("redisstore: the server is a replica, which cannot be written to; give the address of the primary, or of the sentinels")
	}
	if in["loading"] == "1" {
		return r, errors.New("redisstore: the server is still loading its data; try again when it has")
	}
	r.Warnings = append(r.Warnings, in.evictionWarnings()...)
	if err := s.probe(ctx); err != nil {
		return r, explain(err)
	}
	return r, nil
}

// probe decides under limits of its own, whose states end soon: one for each way in which
// state is kept.
func (s *Store) probe(ctx context.Context) error {
	k := sluice.StringKey("sluice check")
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerSecond(1000)},
		sluice.SlidingLog{Rate: sluice.PerSecond(1000)},
		sluice.Concurrency{Max: 1000, TTL: time.Second},
	} {
		l := sluice.MustLimit("sluice check "+a.String(), a)
		r := sluice.Request{Limit: l, Key: k, Cost: 1, Member: 1}
		d, err := s.Decide(ctx, r)
		if err != nil {
			return err
		}
		if err := s.Cancel(ctx, r.Charge(&d)); err != nil {
			return err
		}
		if err := s.Reset(ctx, l, k); err != nil {
			return err
		}
	}
	return nil
}

const noPermission = "the user lacks a permission; docs/redis.md has the rule of the least that is needed"

// explain adds the remedy to the errors that an operator can do something about.
func explain(err error) error {
	var answer *ServerError
	if !errors.As(err, &answer) {
		return err
	}
	for _, known := range []struct{ sign, remedy string }{
		{"NOAUTH", "the server asks for a password; give one"},
		{"WRONGPASS", "the user or the password is wrong"},
		{"NOPERM", noPermission},
		{"The user executing the script", noPermission}, // Redis 7.0
		{"ACL failure in script", noPermission},         // later ones
		{"READONLY", "the server is a replica, which cannot be written to; give the address of the primary, or of the sentinels"},
		{"OOM", "the server has no memory left; raise maxmemory"},
		{"LOADING", "the server is still loading its data; try again when it has"},
		{"MISCONF", "the server cannot save to disk and refuses writes; see its log"},
		{"CLUSTERDOWN", "the cluster is down, or not all of its slots are served"},
		{"unknown command", "the server lacks a command that is needed; Redis 5.0 or later, or Valkey, has all"},
	} {
		if strings.Contains(answer.Text, known.sign) {
			return fmt.Errorf("redisstore: %s: %w", known.remedy, err)
		}
	}
	return err
}

// info holds the fields of INFO.
type info map[string]string

func readInfo(text string) info {
	in := make(info)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			in[name] = value
		}
	}
	return in
}

// server returns the program and its version. Valkey tells its own version beside
// the one of Redis that it is compatible with.
func (in info) server() string {
	if v := in["valkey_version"]; v != "" {
		return "valkey " + v
	}
	return "redis " + in["redis_version"]
}

func (in info) major() int {
	text, _, _ := strings.Cut(in["redis_version"], ".")
	n, _ := strconv.Atoi(text)
	return n
}

// evictionWarnings says what the server does with states when its memory is full.
func (in info) evictionWarnings() []string {
	policy := in["maxmemory_policy"]
	switch {
	case policy == "" || policy == "noeviction":
		return nil
	case in["maxmemory"] == "0":
		return []string{"maxmemory-policy is " + policy + ", which takes effect as soon as maxmemory is set, and then forgets keys that are limited; set it to noeviction"}
	default:
		return []string{"maxmemory-policy is " + policy + ", which forgets keys that are limited when the memory is full, so that they start anew; set it to noeviction, and let on_store_error say what happens then"}
	}
}
