package store

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/secret"
	"github.com/sluicehq/sluice/server/internal/store/local"
	"github.com/sluicehq/sluice/server/internal/store/overrides"
	"github.com/sluicehq/sluice/server/internal/store/peers"
	"github.com/sluicehq/sluice/server/internal/store/remote"
	"github.com/sluicehq/sluice/server/internal/store/statefile"
)

// Options configure a Store. All fields are required, except one of the settings.
type Options struct {
	Memory *local.Settings
	// Redis has the settings of a store in Redis, nil for a store in this process.
	Redis *remote.Settings
	// Overrides is the table of the policy, which gets the overrides by call.
	Overrides *policy.OverrideTable
	// Policy is the policy that the store decides for first.
	Policy  *policy.Policy
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
	// Failed gets an error that failed no request.
	Failed func(error)
}

// Store is the store of a server: in this process, where its states can be saved, or in Redis, with its local fallback.
// Make it with Open, and Start it once.
type Store struct {
	// Decides is the store for edges. It may have optional interfaces, such as sluice.Banner.
	Decides sluice.Store
	// Overrides has the overrides by call.
	Overrides *overrides.Book

	memory *memory.Store // the store in this process, or the local fallback
	room   *local.Room   // of memory
	states *local.States // saves memory; nil unless it has a file
	remote *remote.Store // nil in this process
	policy atomic.Pointer[policy.Policy]
}

// Open makes the store of the settings.
func Open(o Options) (s *Store, err error) {
	s = new(Store)
	prefix, what, setting, full := "sluice_store", "the store", "store.memory.max_size", "they share budgets"
	if o.Redis != nil {
		prefix, what, setting = "sluice_local", "the local fallback of the store", "store.redis.local.max_size"
		if s.remote, err = remote.Open(context.Background(), o.Redis, o.Logger, o.Metrics, o.Failed); err != nil {
			return nil, err
		}
		s.SetPolicy(o.Policy)
		o.Metrics.Hybrid(s.hybridStats)
		s.Decides, s.memory = s.remote.Guard(), s.remote.Local()
		s.Overrides = overrides.OpenShared(context.Background(), s.remote.Records(overrides.Space), o.Overrides, o.Logger, o.Metrics)
	} else {
		if s.memory, s.states, err = local.Open(o.Memory, o.Logger, o.Metrics); err != nil {
			return nil, err
		}
		if s.Overrides, err = overrides.OpenLocal(o.Memory.Overrides(), o.Overrides, o.Logger, o.Metrics); err != nil {
			s.Close()
			return nil, err
		}
		s.Decides = s.memory
		if o.Memory.WhenFull == "deny" {
			full = "they are denied"
		}
	}
	s.room = local.NewRoom(s.memory, setting, full, o.Logger)
	s.publish(prefix, what, o.Metrics)
	return s, nil
}

// publish publishes the metrics of the store in memory. The argument what names it in their help texts.
func (s *Store) publish(prefix, what string, m *telemetry.Metrics) {
	m.Gauge(prefix+"_keys", "States that "+what+" holds.",
		func() float64 { return float64(s.memory.Stats().Keys) })
	m.Gauge(prefix+"_bytes", "Memory that states take, in bytes.",
		func() float64 { return float64(s.memory.Stats().Bytes) })
	m.Counter(prefix+"_overflow_total", "Decisions about new keys for which "+what+" had no room.",
		func() float64 { return float64(s.memory.Stats().Overflow) })
}

// InRedis reports whether other servers can share the store.
func (s *Store) InRedis() bool { return s.remote != nil }

// Peers returns the other servers of the store; nil for a store in this process. The argument self is this server,
// which answers their questions.
func (s *Store) Peers(self peers.Server, answer func(ctx context.Context, question string) []byte, logger *slog.Logger) *peers.Peers {
	if s.remote == nil {
		return nil
	}
	return peers.New(peers.Options{
		Servers: s.remote.Records("servers"), Questions: s.remote.Records("questions"), Answers: s.remote.Records("answers"),
		Self: self, Answer: answer, Logger: logger,
	})
}

// KeySecret is the secret of the names of keys in Redis; nil if Redis has the keys of clients as they are.
func (s *Store) KeySecret() []byte {
	if s.remote == nil {
		return nil
	}
	return s.remote.KeySecret()
}

// SetPolicy takes the fallbacks from a policy, which is in force. See [remote.Store.SetPolicy].
func (s *Store) SetPolicy(p *policy.Policy) {
	s.policy.Store(p)
	if s.remote != nil {
		s.remote.SetPolicy(p)
	}
}

// SetShare takes the share of the local fallback from settings that are reloaded; nil for a store in this process.
func (s *Store) SetShare(f *remote.Settings) error {
	if s.remote == nil {
		return nil
	}
	return s.remote.SetShare(f.Local.Share)
}

// Share returns this process's part of each limit, by the settings of a store in Redis. Each of several processes gets
// only its part of the demand.
func Share(f *remote.Settings) sluice.Share {
	if f != nil && f.Local.Share.Parts > 0 {
		return sluice.Share(f.Local.Share)
	}
	return sluice.Share{Of: 1, Parts: 1}
}

// Ready returns why this server should get no requests; nil if it should.
func (s *Store) Ready() error {
	if s.remote == nil {
		return nil
	}
	return s.remote.Ready()
}

// Status returns lines for the readiness probe.
func (s *Store) Status() []string {
	lines := []string{s.states.Status(), s.room.Status(), s.Overrides.Status()}
	if s.remote != nil {
		lines = append([]string{s.remote.Status()}, lines...)
	}
	return lines
}

// markBytes is what is remembered about each state that is saved in a file, see memory.Saver.
const markBytes = 17

// Bytes returns how much memory the states in this process take, in the store or in its local fallback, with
// what is remembered about saved ones. There are no pointers in it.
func (s *Store) Bytes() int64 {
	st := s.memory.Stats()
	if s.states == nil {
		return st.Bytes
	}
	return st.Bytes + markBytes*st.Keys
}

// Start watches and saves the store until the returned function is called, when no request is under way any more.
func (s *Store) Start() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { s.room.Watch(ctx) })
	watching.Go(func() { s.Overrides.Run(ctx) })
	stopSaving := s.states.Start()
	return func() error {
		cancel()
		watching.Wait()
		return stopSaving()
	}
}

// Drain returns the units that this process was granted.
func (s *Store) Drain() {
	if s.remote != nil {
		s.remote.ReturnUnits()
	}
}

// Close ends connections, and closes files.
func (s *Store) Close() {
	_ = s.states.Close()    // all has been written, and synced
	_ = s.Overrides.Close() // so it has
	if s.remote != nil {
		s.remote.Close()
		return
	}
	_ = s.memory.Close() // memory has nothing to write
}

// Check checks the secrets and certificates of a store in Redis, and the file of states of a store in this process.
func Check(m *local.Settings, r *remote.Settings) error {
	if r != nil {
		return remote.CheckSettings(r)
	}
	if m.File == "" {
		return nil
	}
	file, err := statefile.Check(m.File)
	if err != nil {
		return secret.Mistake("store.memory.file", err.Error(), "give a path where this program may read and write")
	}
	if file != nil {
		_ = file.Close() // nothing was written
	}
	return nil
}
