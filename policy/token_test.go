package policy_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// A signed token has one key in every kind of value, however its signature is spelled, or it is refused. Other values keep
// their own keys.
func TestSignedValuesHaveOneKey(t *testing.T) {
	const (
		jwt     = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
		session = "eyJ1c2VyIjoiYW5uIn0.ZyXwVu.Hk1mW2cH6DaXzQ7s5bT9uRfE3yA" // as Flask writes it
		signer  = "ann.Hk1mW2cH6DaXzQ7s5bT9uRfE3yA"
		fernet  = "gAAAAABnQ0v9yq1mW2cH6DaXzQ7s5bT9uRfE3yAdozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
		blob    = "eyJpdiI6Ik5oQWJjZGVmIiwidmFsdWUiOiJ4eXoifQ" // as Laravel writes it, without padding
	)
	key := func(part policy.Part, values map[string][]string) (sluice.Key, bool) {
		rules := named("r")
		rules[0].Key = []policy.Part{part}
		s := &stub{keep: true}
		v := mustPolicy(t, policy.Options{Rules: rules}).Decide(t.Context(), s, &policy.Attributes{Values: several(values)})
		if len(s.requests) != 1 {
			return sluice.Key{}, v.Reason == sluice.ReasonRepeatedKey
		}
		return s.requests[0].Key, false
	}
	places := []struct {
		name, before string
		part         policy.Part
	}{
		{"A", "", policy.Cookie("A")},
		{"A", "", policy.Query("A")},
		{"A", "", policy.Header("A")},
		{"Authorization", "", policy.Header("Authorization")},
		{"Authorization", "Bearer ", policy.Header("Authorization")},
		{"Authorization", "Token ", policy.Header("Authorization")},
		{"Authorization", "JWT ", policy.Header("Authorization")},
		{"Authorization", "Strange ", policy.Header("Authorization")},
		{"Proxy-Authorization", "ApiKey ", policy.Header("Proxy-Authorization")},
	}
	for _, token := range []string{jwt, session, signer, fernet, blob} {
		for _, place := range places {
			plain, refused := key(place.part, map[string][]string{place.name: {place.before + token}})
			if refused {
				t.Errorf("%q is refused", place.before+token)
				continue
			}
			last := token[len(token)-1:]
			other := token[:len(token)-1] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[strings.Index("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", last)|1])
			dot := strings.LastIndexByte(token, '.') + 5
			var dotted []string // services end a signature at a dot, or drop the dot
			if dot > 5 {
				dotted = []string{token + "=x.y", token + ".y", token + ".", token + "!.=", token[:dot] + "." + token[dot:], token + "..x", token[:dot-4] + "." + token[dot-4:]}
			}
			for _, spelled := range append(dotted, []string{
				token + "!!!!", token + "*", token + "=", token + "==", token + "=!", token + "==AAAA", other, other + "~",
				token[:dot] + "!" + token[dot:], token[:dot] + "~~" + token[dot:] + "!",
				token[:dot+1] + "=" + token[dot+1:], token[:dot+2] + "=" + token[dot+2:], token[:dot+6] + "====" + token[dot+6:], token + "=" + strings.Repeat("A", 11),
				strings.NewReplacer("_", "/").Replace(token),
			}...) {
				if spelled == token || len(token)%4 != 2 && strings.HasSuffix(spelled, "==AAAA") && !strings.Contains(token, ".") {
					continue
				}
				if got, refused := key(place.part, map[string][]string{place.name: {place.before + spelled}}); !refused && got != plain {
					t.Errorf("%s %q is another key than %q", place.name, place.before+spelled, token)
				}
				// A rule that chooses one of several values counts by the same key too.
				if got, _ := key(place.part.IfRepeated(policy.RepeatedLast), map[string][]string{place.name: {place.before + spelled}}); !strings.Contains(spelled, "AAAA") && got != plain {
					t.Errorf("%s %q is another key than %q for a rule that reads the last value", place.name, place.before+spelled, token)
				}
			}
		}
	}
	if _, refused := key(policy.Cookie("A"), map[string][]string{"A": {session + "%8B=.~"}}); !refused {
		t.Error("an escape before the last dot is not refused")
	}
	// Services that decode no escapes drop the percent sign.
	spelled := 0
	for _, token := range []string{jwt, session, signer, fernet, blob} {
		plain, _ := key(policy.Cookie("A"), map[string][]string{"A": {token}})
		for at := strings.LastIndexByte(token, '.') + 4; at+2 <= len(token); at++ {
			if _, err := hex.DecodeString(token[at : at+2]); err != nil {
				continue
			}
			spelled++
			value := token[:at] + "%" + token[at:]
			if got, refused := key(policy.Cookie("A"), map[string][]string{"A": {value}}); !refused && got != plain {
				t.Errorf("%q is another key than %q", value, token)
			}
		}
	}
	if spelled < 10 {
		t.Errorf("only %d values have a percent sign before two digits", spelled)
	}
	for value, otherwise := range map[string]string{ // services read parameters in two ways
		"ann.Hk1mW2cH6DaXzQ7s5bT9uRf\xe3yA": "ann.Hk1mW2cH6DaXzQ7s5bT9uRfE3yA",
		"ann.Hk1mW2cH6Da zQ7s5bT9uRfE3yA":   "ann.Hk1mW2cH6Da+zQ7s5bT9uRfE3yA",
	} {
		if _, refused := key(policy.Query("A"), map[string][]string{"A": {value}}); !refused {
			t.Errorf("%q is not refused, which some services read as %q", value, otherwise)
		}
	}
	for _, value := range []string{ // as services write them
		blob + "%3D", blob + "%3D%3D", "s%3A" + signer + "%2B" + "abcdefghijklmno", "s%3Aab.dozjgNryP4J3jVmNHl0w5N%2BXgL0n3I9PlFUP0THsR8U", "%22ann%22." + signer[4:], "100%25.abcdefghijklmnopqrstuvwxyz",
	} {
		if _, refused := key(policy.Cookie("A"), map[string][]string{"A": {value}}); refused {
			t.Errorf("%q is refused", value)
		}
	}
	seen := map[sluice.Key]string{}
	for _, value := range []string{
		"1.2.3", "a.b", "eyal.cohen@example.com", "eyewear.shop!", "https://example.com/a?b=c", "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0",
		"tenant.0ujsswThIGTUYm2K8FjOOfXtY1K", "tenant.0ujsswThIGTUYm2K8FjOOfXtY2K", strings.Repeat("a", 64), strings.Repeat("a", 63) + "b",
		"BAh7B0kiD3Nlc3Npb25faWQGOgZFVEkiJWE4==--0123456789abcdef0123456789abcdef01234567", "eyJzZXNzaW9uIjoiYSJ9Cg==--0123456789abcdef0123456789abcdef01234567",
		"eyJzZXNzaW9uIjoiYSJ9Cg==--0123456789abcdef0123456789abcdef01234568", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("plain text ", 9))),
		"a sentence. another one, with marks!", "a sentence with\xe9n e in Latin-1 and no signature", "tenant.a name of some words with +", "-----------------------------.", "............................", "=============================", ".===========================",
	} {
		got, refused := key(policy.Query("A"), map[string][]string{"A": {value}})
		if before, taken := seen[got]; taken || refused {
			t.Errorf("%q: refused %v, or has the key of %q", value, refused, before)
		}
		seen[got] = value
	}
}
