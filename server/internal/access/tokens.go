package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"
)

// Tokens are bearer tokens, each of which is enough. They can be replaced while they are checked. All methods are
// safe for concurrent use.
type Tokens struct{ digests atomic.Pointer[[]digest] }

// digest is a hash of a token. Hashes have equal lengths, so comparing two takes the same time for every guess.
type digest = [sha256.Size]byte

// NewTokens returns tokens, or nil if there are none. An empty token is none.
func NewTokens(tokens ...string) *Tokens {
	t := new(Tokens)
	if t.Set(tokens...); len(*t.digests.Load()) == 0 {
		return nil
	}
	return t
}

// Set replaces the tokens.
func (t *Tokens) Set(tokens ...string) {
	var all []digest
	for _, token := range tokens {
		if token != "" {
			all = append(all, sha256.Sum256([]byte(token)))
		}
	}
	t.digests.Store(&all)
}

// Verify reports whether a token is one of these. The time it takes does not depend on the token.
func (t *Tokens) Verify(token string) bool {
	guess, right := sha256.Sum256([]byte(token)), 0
	for _, d := range *t.digests.Load() {
		right |= subtle.ConstantTimeCompare(guess[:], d[:])
	}
	return right == 1
}
