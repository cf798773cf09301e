package telemetry

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
)

// Denials logs a sample of denials: the first few of each second. The first line after a gap has
// the number of denials that were not logged. So a flood costs a bounded rate of lines and stays
// visible.
type Denials struct {
	logger      *slog.Logger
	sampler     *sampled.Sampler
	fingerprint func(sluice.Key) string
	now         func() time.Time
}

// NewDenials returns a log of at most perSecond lines a second; 0 logs nothing.
func NewDenials(logger *slog.Logger, perSecond int, fingerprint func(sluice.Key) string) *Denials {
	return &Denials{logger: logger, sampler: sampled.NewSampler(perSecond), fingerprint: fingerprint, now: time.Now}
}

// Observe logs a verdict if it is a denial and the sampler takes it.
func (d *Denials) Observe(e Edge, v *policy.Verdict) {
	if v.Allowed() || v.Abandoned() {
		return
	}
	hidden, ok := d.sampler.Take(d.now())
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("edge", string(e)), slog.String("reason", v.Reason.String()))
	if v.Rule != nil {
		attrs = append(attrs, slog.String("rule", v.Rule.Name))
	}
	if v.Missing != nil {
		// This is the name of a header or cookie: from the configuration, not from the client.
		attrs = append(attrs, slog.String("missing", v.Missing.Name))
	}
	if met := tightest(v); met != nil {
		attrs = append(attrs,
			slog.String("limit", met.Request.Limit.Name()),
			slog.String("key", d.fingerprint(met.Request.Key)),
			slog.Int64("cost", met.Request.Cost),
		)
		if met.Decision.Degraded {
			attrs = append(attrs, slog.Int64("capacity", met.Request.Limit.Capacity()), slog.Bool("degraded", true))
		} else {
			attrs = append(attrs, slog.Int64("capacity", met.Decision.Limit), slog.Int64("remaining", met.Decision.Remaining))
		}
		attrs = append(attrs, slog.Duration("retry_after", met.Decision.RetryAfter))
	}
	if hidden > 0 {
		attrs = append(attrs, slog.Int("not_logged", hidden))
	}
	d.logger.LogAttrs(context.Background(), slog.LevelInfo, "denied", attrs...)
}

// tightest returns the limit that made the verdict a denial.
func tightest(v *policy.Verdict) *policy.LimitResult {
	for i := range v.Results {
		if m := &v.Results[i]; m.Rule == v.Rule && m.Request.Limit == v.TightestLimit && !m.Decision.Allowed {
			return m
		}
	}
	return nil
}

// Fingerprinter gives keys names that do not reveal them. A key has the same fingerprint as long as
// the process runs, and with a secret in all processes that have it. Without the seed, nobody can find the key by trying.
type Fingerprinter struct {
	seed   [32]byte
	hashes sync.Pool // of hash.Hash, with the seed
}

// newFingerprinter returns a fingerprinter with the seed of a secret, or with a random seed without one.
func newFingerprinter(secret string) *Fingerprinter {
	f := &Fingerprinter{}
	f.hashes.New = func() any { return hmac.New(sha256.New, f.seed[:]) }
	if secret != "" {
		// The secret may have another use, so the seed is not the secret's own hash.
		f.seed = sha256.Sum256([]byte("sluice log fingerprint\x00" + secret))
		return f
	}
	// Read never fails: without randomness it ends the program.
	_, _ = rand.Read(f.seed[:])
	return f
}

// Fingerprint returns 16 hexadecimal digits.
func (f *Fingerprinter) Fingerprint(k sluice.Key) string {
	h := f.hashes.Get().(hash.Hash)
	defer f.hashes.Put(h)
	h.Reset()
	b := binary.AppendUvarint(make([]byte, 0, 128), uint64(k.Len()))
	h.Write(append(b, k.Text()...))
	return hex.EncodeToString(h.Sum(b[:0])[:8])
}
