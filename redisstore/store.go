package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// Options are the settings of a store. The zero value is a good one.
type Options struct {
	// Prefix begins every key that the store writes. Programs that share limits need the
	// same prefix. Up to 128 bytes without braces. Default: "sluice".
	Prefix string
	// Secret, if set, makes the store hash keys with HMAC-SHA-256, so that Redis holds no
	// raw identifier. Programs that share limits need the same secret. At least 16 bytes.
	Secret []byte
	// Tenant, if set, returns the part of a key that chooses its slot in a cluster. All
	// keys of a tenant are on one node then, and a batch of them is one call. Default: the
	// key itself, so that all limits of a key share a slot.
	Tenant func(k sluice.Key) string
	// Clock returns this computer's time in microseconds since the Unix epoch. The store
	// uses it to look up the boundaries of calendars; all decisions use the server's time.
	// Default: the wall clock.
	Clock func() int64
	// Cluster must be true if the client speaks to a cluster: a batch takes one call for
	// each slot then. New of packages rueidisstore and goredisstore sets it.
	Cluster bool
}

// maxPrefix bounds the prefix, which every key repeats.
const maxPrefix = 128

func (o *Options) complete() error {
	if o.Prefix == "" {
		o.Prefix = "sluice"
	}
	if strings.ContainsAny(o.Prefix, "{}") || len(o.Prefix) > maxPrefix {
		return fmt.Errorf("redisstore: Options.Prefix is %q; give up to %d bytes without braces, which choose the slot in a cluster", o.Prefix, maxPrefix)
	}
	if len(o.Secret) > 0 && len(o.Secret) < 16 {
		return errors.New("redisstore: Options.Secret is shorter than 16 bytes, which can be guessed; give 16 random bytes or more")
	}
	if o.Clock == nil {
		o.Clock = func() int64 { return time.Now().UnixMicro() }
	}
	return nil
}

// Store keeps the state of limits in a Redis or Valkey server. It is safe for concurrent
// use, by any number of processes. Most programs make one with New of package rueidisstore.
type Store struct {
	client  Client
	names   names
	cluster bool
	limits  limits
	clock   func() int64
	closed  atomic.Bool
	shards  shards
	late    chan struct{} // holds a value for each batch that is given back late
}

var _ sluice.Store = (*Store)(nil)

// New returns a store over a client. Most programs call New of package rueidisstore or
// goredisstore instead, which bring the client. The error names the missing client or the wrong option. New
// does not call the server; [Store.Check] does.
func New(c Client, o Options) (*Store, error) {
	if c == nil {
		return nil, errors.New("redisstore: New has no client; give one, or use package rueidisstore or goredisstore")
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Store{
		client:  c,
		names:   names{prefix: o.Prefix, secret: bytes.Clone(o.Secret), tenant: o.Tenant},
		cluster: o.Cluster,
		clock:   o.Clock,
		late:    make(chan struct{}, maxLate),
	}, nil
}

// Close makes all methods return sluice.ErrClosed, and closes the client if it is an
// io.Closer. It deletes nothing on the server.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if c, ok := s.client.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// stateKey returns the server's key for the state of a limit's key.
func (s *Store) stateKey(l *limit, k sluice.Key) string {
	var room [maxServerKey]byte // most fit
	return string(append(s.names.appendStem(room[:0], k), l.state...))
}

// banKey returns the server's key for the ban of a limit's key. It is in the same slot.
func (s *Store) banKey(l *limit, k sluice.Key) string { return s.names.stem(k) + l.ban }

// Decide decides one request by one call. See sluice.Store.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (s *Store) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if err := r.Check(); err != nil {
		return sluice.Decision{}, err
	}
	if r.Ban != nil || r.Hold > 0 {
		var out [1]sluice.Decision
		r.Shadow = true // a single request is decided on its own
		err := s.decideSlot(ctx, []sluice.Request{r}, out[:])
		return out[0], err
	}
	l := s.limits.get(r.Limit)
	q := l.request(&r)
	words := [5]string{s.stateKey(l, r.Key), l.blob, requestText(&q, s.bounds(l))}
	keys, args := words[:1:1], words[1:3]
	if r.Peek {
		words[3], args = "1", words[1:4]
	}
	if l.overdraft > 0 {
		words[4], args = string(appendInt(nil, l.overdraft)), words[1:5]
	}
	if len(args) == 2 && args[1] == plainText {
		args = args[:1]
	}
	sc := decideScripts.get(1<<l.params.Kind, decideFiles)
	reply, err := s.run(ctx, sc, keys, args)
	if now, ok := outside(err); ok {
		words[2] = requestText(&q, l.bounds(now))
		reply, err = s.run(ctx, sc, keys, args)
	}
	if err != nil {
		return sluice.Decision{}, err
	}
	d, err := l.replied(reply, &q, r.Peek)
	if err != nil {
		return sluice.Decision{}, unknown(err)
	}
	return d, nil
}

// errDisagree reports that a script and package algo decide differently.
var errDisagree = errors.New("redisstore: the server's verdict does not follow from its state; do all programs that share the prefix use the same version?")

// unknown wraps an error after which the request may have been charged.
func unknown(err error) error { return errors.Join(sluice.ErrUnknownOutcome, err) }

// bounds returns the boundaries of a limit's calendar around now, by this computer's clock,
// and around other times.
func (s *Store) bounds(l *limit, others ...int64) []int64 {
	if !l.calendar() {
		return nil
	}
	return l.bounds(append(others, s.clock())...)
}

// outside returns the server's time from the error of a script whose calendar boundaries do
// not hold that time. The script has changed nothing. The caller runs it once more, with
// boundaries around the server's time.
func outside(err error) (now int64, ok bool) {
	if err == nil {
		return 0, false
	}
	var answer *ServerError
	if !errors.As(err, &answer) {
		return 0, false
	}
	_, text, ok := strings.Cut(answer.Text, "sluice-outside:")
	if !ok {
		return 0, false
	}
	if end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
		text = text[:end]
	}
	now, err = strconv.ParseInt(text, 10, 64)
	return now, err == nil
}

// request returns a request for the limit's algorithm, in numbers that scripts compute exactly.
func (l *limit) request(r *sluice.Request) algo.Request {
	q := translate.Request(r)
	q.MaxWait = min(q.MaxWait, exact-1)
	if q.MaxWait < 0 && l.params.Kind != algo.KindLeaky && l.params.Kind != algo.KindConcurrency {
		q.MaxWait = 0 // limits without a queue offer no delay, so that the request is plain
		if r.Limit.Hybrid() != nil {
			q.MaxWait = -1 // of a process that is a holder: see driver.Grant.Others
		}
	}
	return q
}

// plainText is the text of most requests: one unit, and nothing else.
var plainText = string(appendRequest(nil, &algo.Request{Cost: 1}, nil))

// requestText returns a request as the scripts read it.
func requestText(q *algo.Request, bounds []int64) string {
	if q.Cost == 1 && q.Floor == 0 && q.MaxWait == 0 && q.Member == 0 && !q.Debit && !q.Overdraw && bounds == nil {
		return plainText
	}
	return string(appendRequest(make([]byte, 0, 48), q, bounds))
}

// debitText marks a debit, in place of a member. It also marks a batch of nothing but debits.
const debitText = "D"

// overdrawText marks an overdraw in the same way.
const overdrawText = "O"

func appendRequest(b []byte, q *algo.Request, bounds []int64) []byte {
	b = appendInt(b, min(q.Cost, tooMany))
	b = appendInt(b, min(q.Floor, tooMany))
	b = appendInt(b, max(-1, min(q.MaxWait, exact-1)))
	switch {
	case q.Debit:
		b = appendText(b, debitText)
	case q.Overdraw:
		b = appendText(b, overdrawText)
	default:
		b = appendMember(b, q.Member)
	}
	for _, n := range bounds {
		b = appendInt(b, n)
	}
	return b
}

// appendMember appends the identity of a lease.
func appendMember(b []byte, member uint64) []byte {
	if member == 0 {
		return appendText(b, "")
	}
	var text [8]byte
	for i := range text {
		text[i] = byte(member >> (8 * i))
	}
	return appendText(b, string(text[:]))
}
