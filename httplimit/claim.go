package httplimit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// maxToken bounds the token that is looked into.
const maxToken = 16 << 10

// BearerClaim returns a claim of the JSON Web Token in a request's Authorization header, and
// DOES NOT VERIFY THE TOKEN: anybody can write one that says anything. It is for services
// behind a gateway that lets no request pass whose token it has not verified. Where there
// is none, clients choose their own keys with it, and so escape every limit.
//
// Claims are strings, numbers and booleans at the top of the payload. There are none if the request
// has two Authorization headers, of which the gateway may have verified the other one.
func BearerClaim(r *http.Request, name string) (string, bool) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 || len(lines[0]) > maxToken {
		return "", false
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	parts := strings.Split(strings.TrimLeft(token, " "), ".")
	if len(parts) != 3 {
		return "", false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", false
	}
	return claimOf(payload, name)
}

// claimOf returns a member of a JSON object. Of several of a name it is the last, as for most who verify.
func claimOf(payload []byte, name string) (string, bool) {
	var claims map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil {
		return "", false
	}
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
