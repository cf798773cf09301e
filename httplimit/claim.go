package httplimit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

// maxToken bounds the Authorization header that is parsed, in bytes.
const maxToken = 16 << 10

// BearerClaim returns a claim of the JSON Web Token in a request's Authorization header. It DOES NOT
// VERIFY THE TOKEN: anybody can write a token with any claims. Use it only behind a gateway that
// verifies the token of each request that it lets pass. Without such a gateway, clients choose their
// own keys, and so escape every limit.
//
// Claims are strings, numbers and booleans at the top of the payload. There are no claims if the
// request has two Authorization headers, because the gateway may have verified the other one.
func BearerClaim(r *http.Request, name string) (string, bool) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return "", false
	}
	clean, _ := spelling.Credentials(lines[0])
	claims, _ := claimsOf(clean)
	return claimIn(claims, name)
}

// readClaim reads a claim of the bearer token. The result is unclear if services that are lenient about the
// header find a token in it whose claims are not read here.
func (v values) readClaim(name string) policy.Found {
	lines := v.r.Header["Authorization"]
	switch len(lines) {
	case 0:
		return policy.Found{}
	case 1:
	default:
		return policy.Found{Count: policy.CountSeveral}
	}
	clean, certain := spelling.Credentials(lines[0])
	claims, readable := claimsOf(clean)
	r := one(claimIn(claims, name))
	if !certain || !readable && mayHoldClaims(clean) {
		r.Count = policy.CountUnclear
	}
	return r
}

// claimsOf returns the claims of the token in an Authorization header, as spelling.Credentials returns it.
func claimsOf(clean string) (claims map[string]json.RawMessage, ok bool) {
	token, ok := strings.CutPrefix(clean, "Bearer ")
	if !ok || len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil, false
	}
	_, rest, _ := strings.Cut(token, ".")
	text, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(text)
	return claims, err == nil && json.Unmarshal(payload, &claims) == nil
}

// mayHoldClaims reports whether a text has a JSON Web Token in it: its header is a JSON object in base64, which
// begins with "ey", and two dots follow.
func mayHoldClaims(text string) bool {
	last := strings.LastIndexByte(text, '.')
	if last < 0 {
		return false
	}
	text = text[:max(0, strings.LastIndexByte(text[:last], '.'))]
	for at := 0; ; at++ {
		i := strings.Index(text[at:], "ey")
		if i < 0 {
			return false
		}
		if at += i; at == 0 || !isObfuscated(text[at-1]) {
			return true
		}
	}
}

// claimIn returns one of the claims. If several members of the JSON object have the name, it returns the last
// one, as most verifiers do.
func claimIn(claims map[string]json.RawMessage, name string) (string, bool) {
	raw := bytes.TrimSpace(claims[name])
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return "", false
		}
		return text, true
	case '{', '[', 'n':
		return "", false
	default:
		return string(raw), true
	}
}
