package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// Report is the result of Check.
type Report struct {
	// Server is the program and its version, such as "redis 7.0.15". If the masters of a
	// cluster differ, it lists all of them, as in "redis 7.0.15, valkey 8.0.1".
	Server string
	// Warnings describe what works now, but will not always. Without problems it is empty.
	Warnings []string
}

// MisfitError reports that the server, or its user, is set up so that it cannot hold limits. A
// retry does not help.
type MisfitError struct {
	text string
	err  error // the server's reply, if that showed the problem
}

func (e *MisfitError) Error() string { return e.text }

// Unwrap returns the server's error reply, if that showed the problem.
func (e *MisfitError) Unwrap() error { return e.err }

// oldestMajor is the oldest version that has all that the scripts need. From 5.0 on, a script
// may write after it has read the time.
const oldestMajor = 5

// masterPatience is how long the check of one of several masters may take. If three quarters of
// the time until the caller's deadline are longer, the check may take that time.
const masterPatience = time.Second

// Check checks whether the server, or each master of a cluster, can hold limits. It also decides
// some requests there, under keys of its own. Programs call it when they start.
//
// An error means that the store cannot work, and contains the remedy. It is a *MisfitError if a
// retry does not help. A master that does not answer while others do is only a warning.
func (s *Store) Check(ctx context.Context) (Report, error) {
	masters, err := s.client.Masters(ctx)
	if err != nil {
		return Report{}, explain(err, "")
	}
	if len(masters) == 0 {
		return Report{}, errors.New("redisstore: no node of the cluster has slots; give it some, as with: redis-cli --cluster fix")
	}
	found := make([]finding, len(masters))
	if len(masters) == 1 {
		found[0] = s.checkMaster(ctx, masters[0])
	} else {
		s.checkMasters(ctx, masters, found)
	}
	return summary(found)
}

// checkMasters checks all masters in parallel, so that a silent one does not delay the others.
func (s *Store) checkMasters(ctx context.Context, masters []Master, found []finding) {
	patience := masterPatience
	if deadline, ok := ctx.Deadline(); ok {
		patience = max(patience, time.Until(deadline)*3/4)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all sync.WaitGroup
	for i, m := range masters {
		all.Go(func() { found[i] = s.checkMaster(ctx, m) })
	}
	all.Wait()
}

// finding is the result of the check of one master.
type finding struct {
	address  string // the address of a node of a cluster
	server   string
	warnings []string
	err      error
}

// summary joins findings into one report.
func summary(found []finding) (Report, error) {
	var r Report
	var passing error
	good := false
	for _, f := range found {
		if f.server != "" && !slices.Contains(strings.Split(r.Server, ", "), f.server) {
			r.Server = strings.TrimPrefix(r.Server+", "+f.server, ", ")
		}
	}
	where := map[string][]string{} // the addresses of the masters with a warning
	for _, f := range found {
		var misfit *MisfitError
		switch {
		case f.err == nil:
			good = true
		case errors.As(f.err, &misfit):
			return r, f.err
		default:
			passing = cmp.Or(passing, f.err)
			r.Warnings = append(r.Warnings, strings.TrimPrefix(f.err.Error(), "redisstore: "))
		}
		for _, w := range f.warnings {
			where[w] = append(where[w], f.address)
		}
	}
	if !good {
		return Report{Server: r.Server}, passing
	}
	for _, w := range slices.Sorted(maps.Keys(where)) {
		r.Warnings = append(r.Warnings, subject(where[w])+w)
	}
	return r, nil
}

// maxNamed is how many nodes of a cluster a warning names.
const maxNamed = 3

// subject returns the beginning of a text about some masters. For a server that is not in a
// cluster it is empty.
func subject(addresses []string) string {
	named := addresses[:min(len(addresses), maxNamed)]
	more := len(addresses) - len(named)
	switch {
	case addresses[0] == "":
		return ""
	case len(addresses) == 1:
		return "the master " + addresses[0] + ": "
	case more > 0:
		return fmt.Sprintf("the masters %s and %d more: ", strings.Join(named, ", "), more)
	default:
		return "the masters " + strings.Join(named, ", ") + ": "
	}
}

// checkMaster checks one server.
func (s *Store) checkMaster(ctx context.Context, m Master) finding {
	f := finding{address: m.Address}
	at := subject([]string{m.Address})
	text, err := s.client.Info(ctx, slotKey(m.Slot))
	if err != nil {
		f.err = explain(err, at)
		return f
	}
	in := readInfo(text)
	f.server = in.server()
	if problem := s.misfit(in); problem != "" {
		f.err = &MisfitError{text: "redisstore: " + at + problem}
		return f
	}
	if in["loading"] == "1" {
		f.err = errors.New("redisstore: " + at + "the server is still loading its data; try again when it has")
		return f
	}
	if s.cluster && in["cluster_enabled"] == "0" {
		f.warnings = append(f.warnings, "the client is for clusters, and the server is not in a cluster: batches take a call for each slot without need")
	}
	f.warnings = append(f.warnings, in.evictionWarnings()...)
	if err := s.probe(ctx, m); err != nil {
		f.err = explain(err, at)
	}
	return f
}

// misfit returns what is permanently wrong with a server, or an empty text.
func (s *Store) misfit(in info) string {
	switch major := in.major(); {
	case major > 0 && major < oldestMajor:
		return fmt.Sprintf("the server is %s; version %d.0 or later is needed", in.server(), oldestMajor)
	case in["cluster_enabled"] == "1" && !s.cluster:
		return "the server is a node of a cluster, and the client is not one for clusters; give a cluster client"
	case in["role"] == "slave" && !s.cluster:
		return "the server is a replica, which cannot be written to; give the address of the primary, or of the sentinels"
	default:
		return ""
	}
}

// probe decides requests on one server, under limits of its own whose states end soon. There is
// one limit for each way to keep state.
func (s *Store) probe(ctx context.Context, m Master) error {
	k := sluice.StringKey("sluice check")
	if m.Address != "" {
		// A key that is on this master, and is stored as it is.
		k = sluice.StringKey(slotKey(m.Slot))
		var err error
		if s, err = New(s.client, Options{Prefix: s.names.prefix, Clock: s.clock, Cluster: s.cluster}); err != nil {
			return err
		}
	}
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
		if err := s.Cancel(ctx, r.Charge(&d)); err != nil && !errors.Is(err, sluice.ErrActed) {
			return err
		}
		if err := s.Reset(ctx, l, k); err != nil {
			return err
		}
	}
	return nil
}

const noPermission = "the user lacks a permission; docs/redis.md lists the needed ones"

// explain adds the remedy to an error, if an operator can mend it, and the master's address.
func explain(err error, at string) error {
	var answer *ServerError
	if !errors.As(err, &answer) {
		return about(err, at)
	}
	for _, known := range []struct {
		sign, remedy string
		lasts        bool
	}{
		{"NOAUTH", "the server requires a password; give one", true},
		{"WRONGPASS", "the user or the password is wrong", true},
		{"NOPERM", noPermission, true},
		{"The user executing the script", noPermission, true}, // Redis 7.0
		{"ACL failure in script", noPermission, true},         // later versions, and Valkey
		{"READONLY", "the server is a replica, which cannot be written to; give the address of the primary, or of the sentinels", true},
		{"OOM", "the server has no memory left; raise maxmemory", false},
		{"LOADING", "the server is still loading its data; try again when it has", false},
		{"MISCONF", "the server cannot save to disk and refuses writes; see its log", false},
		{"CLUSTERDOWN", "the cluster is down, or not all of its slots are served", false},
		{"unknown command", "the server lacks a command that is needed; Redis 5.0 or later, or Valkey, has all", true},
	} {
		if !strings.Contains(answer.Text, known.sign) {
			continue
		}
		if known.lasts {
			return &MisfitError{text: "redisstore: " + at + known.remedy + ": " + err.Error(), err: err}
		}
		return fmt.Errorf("redisstore: %s%s: %w", at, known.remedy, err)
	}
	return about(err, at)
}

// about adds the master's address to an error, if there are several masters.
func about(err error, at string) error {
	switch {
	case at == "":
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("redisstore: %sno answer in time: %w", at, err)
	default:
		return fmt.Errorf("redisstore: %s%w", at, err)
	}
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

// server returns the program and its version. Valkey reports its own version, and the version
// of the compatible Redis.
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

// evictionWarnings returns a warning if the server evicts states when its memory is full.
func (in info) evictionWarnings() []string {
	policy := in["maxmemory_policy"]
	switch {
	case policy == "" || policy == "noeviction":
		return nil
	case in["maxmemory"] == "0":
		return []string{"maxmemory-policy is " + policy + ", which takes effect as soon as maxmemory is set, and then forgets keys that are limited; set it to noeviction"}
	default:
		return []string{"maxmemory-policy is " + policy + ", which forgets keys that are limited when the memory is full, so that they start again; set it to noeviction, and let on_store_error decide then"}
	}
}
