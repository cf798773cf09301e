package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"
)

// Tokens are bearer tokens, each of which is enough. They can be replaced while they are checked. All methods are
// safe for concurrent use.
type Tokens struct{ known atomic.Pointer[[]known] }

// Token is a bearer token, and what it may do.
type Token struct {
	Text   string
	Scopes Scope
}

type known struct {
	digest digest
	scopes Scope
}

// digest is a hash of a token. Hashes have equal lengths, so comparing two takes the same time for every guess.
type digest = [sha256.Size]byte

// newTokens returns tokens, or nil if there are none. An empty token is none.
func newTokens(tokens ...Token) *Tokens {
	t := new(Tokens)
	if t.Set(tokens...); len(*t.known.Load()) == 0 {
		return nil
	}
	return t
}

// Set replaces the tokens.
func (t *Tokens) Set(tokens ...Token) {
	var all []known
	for _, token := range tokens {
		if token.Text != "" {
			all = append(all, known{sha256.Sum256([]byte(token.Text)), token.Scopes})
		}
	}
	t.known.Store(&all)
}

// scopesOf returns what a token may do; nothing if it is not one of these. The time it takes does not depend on the token.
func (t *Tokens) scopesOf(token string) (scopes Scope) {
	guess := sha256.Sum256([]byte(token))
	for _, k := range *t.known.Load() {
		scopes |= k.scopes * Scope(subtle.ConstantTimeCompare(guess[:], k.digest[:]))
	}
	return scopes
}
