package telemetry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/sluicehq/sluice"
)

// Fingerprinter names keys without telling them: the same key has the same
// fingerprint for as long as the process runs, and nobody without the seed can try
// out which key it is.
type Fingerprinter struct {
	seed [32]byte
}

// NewFingerprinter returns a fingerprinter with a seed of its own.
func NewFingerprinter() *Fingerprinter {
	f := &Fingerprinter{}
	// Read never fails: it ends the program where there is no randomness.
	_, _ = rand.Read(f.seed[:])
	return f
}

// Fingerprint returns 16 hexadecimal digits.
func (f *Fingerprinter) Fingerprint(k sluice.Key) string {
	h := hmac.New(sha256.New, f.seed[:])
	h.Write(binary.AppendUvarint(nil, uint64(k.Len())))
	h.Write([]byte(k.Text()))
	return hex.EncodeToString(h.Sum(nil)[:8])
}
