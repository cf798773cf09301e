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

// Report is what Check has found.
type Report struct {
	// Server is the program and its version, such as "redis 7.0.15". Where the masters of a
	// cluster differ, it is all of them, as in "redis 7.0.15, valkey 8.0.1".
	Server string
	// Warnings say what works, and will not always. Empty is good.
	Warnings []string
}

// MisfitError says that a server cannot hold limits as it is, or as its user is: no waiting
// mends that.
type MisfitError struct {
	text string
	err  error // the server's reply, if it was one that told
}

func (e *MisfitError) Error() string { return e.text }
func (e *MisfitError) Unwrap() error { return e.err }

// The oldest versions that have all that the scripts need: 5.0 lets a script that asks
// for the time write.
const oldestMajor = 5

// masterPatience is how long one of several masters may take to be checked, at least: it is three
// quarters of the time until the caller's deadline, if that is longer.
const masterPatience = time.Second

// Check asks the server, or each master of a cluster, whether it can hold limits, and decides
// some there under keys of its own. It is for the start of a program. An error means that the
// store cannot work, and says what to do: a *MisfitError if it will not pass by itself. A
// master that does not answer while others do is a warning.
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

// checkMasters asks all at once, so that one that is silent holds up no other.
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

// finding is what the check of one master has come to.
type finding struct {
	address  string // of a node of a cluster
	server   string
	warnings []string
	err      error
}

// summary puts what was found into one report.
func summary(found []finding) (Report, error) {
	var r Report
	var passing error
	good := false
	for _, f := range found {
		if f.server != "" && !slices.Contains(strings.Split(r.Server, ", "), f.server) {
			r.Server = strings.TrimPrefix(r.Server+", "+f.server, ", ")
		}
	}
	where := map[string][]string{} // the addresses that a warning is about
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
		r.Warnings = append(r.Warnings, place(where[w])+w)
	}
	return r, nil
}

// maxPlaces is how many nodes of a cluster are named at most.
const maxPlaces = 3

// place names masters, for what is said about them; it is empty for a server that is none of
// a cluster.
func place(addresses []string) string {
	named := addresses[:min(len(addresses), maxPlaces)]
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

// checkMaster asks one server.
func (s *Store) checkMaster(ctx context.Context, m Master) finding {
	f := finding{address: m.Address}
	at := place([]string{m.Address})
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
		f.warnings = append(f.warnings, "the client is one for clusters, and the server is not in a cluster: batches take a call for each slot for nothing")
	}
	f.warnings = append(f.warnings, in.evictionWarnings()...)
	if err := s.probe(ctx, m); err != nil {
		f.err = explain(err, at)
	}
	return f
}

// misfit says what is wrong with a server for good, if anything is.
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

// probe decides on one server, under limits of its own, whose states end soon: one for each way
// in which state is kept.
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

// explain adds the remedy to the errors that an operator can do something about, and the place.
func explain(err error, at string) error {
	var answer *ServerError
	if !errors.As(err, &answer) {
		return placed(err, at)
	}
	for _, known := range []struct {
		sign, remedy string
		lasts        bool
	}{
		{"NOAUTH", "the server asks for a password; give one", true},
		{"WRONGPASS", "the user or the password is wrong", true},
		{"NOPERM", noPermission, true},
		{"The user executing the script", noPermission, true}, // Redis 7.0
		{"ACL failure in script", noPermission, true},         // later ones, and Valkey
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
	return placed(err, at)
}

// placed names the place of an error, if it is not the only one.
func placed(err error, at string) error {
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
