package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

// A storedKey is a key of the server, taken apart again.
type storedKey struct {
	tenant, text string // digests where the text was too long
	parts        int
	word         string // the algorithm's word
	ban          bool
	limit        string
}

// decode takes a key apart as the comment in key.go says it is written.
func decode(key, prefix string, tenants bool) (w storedKey, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix+"{")
	if !ok {
		return w, false
	}
	if tenants {
		if w.tenant, rest, ok = decodeText(rest); !ok {
			return w, false
		}
	}
	if w.text, rest, ok = decodeText(rest); !ok {
		return w, false
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		return w, false
	}
	w.parts = 1
	if end > 0 {
		n, err := strconv.Atoi(rest[:end])
		if err != nil || n == 1 {
			return w, false
		}
		w.parts = n
	}
	rest = rest[end:]
	end = strings.IndexFunc(rest, func(c rune) bool { return c < 'a' || c > 'z' })
	if end < 0 {
		return w, false
	}
	w.word, w.ban, w.limit = rest[:end], rest[end] == '!', rest[end+1:]
	return w, w.ban && w.word == "" || rest[end] == ':'
}

// decodeText reads a text up to its brace.
func decodeText(s string) (text, rest string, ok bool) {
	text, rest, ok = strings.Cut(s, "}")
	switch {
	case !ok || text == "":
		return "", "", false
	case text == "%":
		return "", rest, true
	case strings.HasPrefix(text, "%#"):
		return text, rest, true
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if len(text) < i+3 {
			return "", "", false
		}
		n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", "", false
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), rest, true
}

// shortened is what a text is decoded as: itself, or the digest of one that is too long.
func shortened(text string) string {
	if len(text) <= maxKeyText {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "%#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// FuzzStoredKeys: the limit, the key and the tenant can be read from the server's key of a state
// or a ban, whatever bytes they hold. Its hash tag is the tenant's, or the key's.
func FuzzStoredKeys(f *testing.F) {
	f.Add("a", "b", 2, "per-client", "t", 0, true)
	f.Add("", "", 0, "n", "", 1, false)
	f.Add("", "", 1, "n", "", 2, true)
	f.Add("}%{", "%7D", 2, "}:x", "%}", 0, false)
	f.Add("%#", "\x00", 1, "#x", "%", 1, true)
	f.Add("fixed:n", "2", 2, "log:n", "fixed", 2, false)
	f.Add(strings.Repeat("x", 161), strings.Repeat("}", 80), 2, strings.Repeat("n", 65), strings.Repeat("t", 161), 1, false)
	algorithms := []struct {
		word string
		sluice.Algorithm
	}{
		{"", sluice.TokenBucket{Rate: sluice.PerSecond(1)}},
		{"fixed", sluice.FixedWindow{Rate: sluice.PerSecond(1)}},
		{"leases", sluice.Concurrency{Max: 1}},
	}
	f.Fuzz(func(t *testing.T, first, second string, parts int, name, tenant string, which int, ban bool) {
		a := algorithms[max(0, min(which, len(algorithms)-1))]
		l, err := sluice.NewLimit(name, a.Algorithm)
		if err != nil || name == "" {
			return
		}
		k := sluice.NewKey([]string{first, second, first + second}[:max(0, min(parts, 3))]...)
		for _, tenants := range []bool{false, true} {
			o := Options{Prefix: "p"}
			want := storedKey{text: shortened(k.Text()), parts: k.Len(), word: a.word, ban: ban, limit: suffix(l)}
			if ban {
				want.word = ""
			}
			if tenants {
				o.Tenant = func(sluice.Key) string { return tenant }
				want.tenant = shortened(tenant)
			}
			s := store(t, o)
			key := s.stateKey(s.limits.get(l), k)
			if ban {
				key = s.banKey(s.limits.get(l), k)
			}
			got, ok := decode(key, "p", tenants)
			if !ok || got != want {
				t.Errorf("%q is decoded as %+v, %v; want %+v", key, got, ok, want)
			}
			if len(name) <= maxNameText && !strings.HasPrefix(name, "#") && got.limit != name {
				t.Errorf("%q is of the limit %q; want %q", key, got.limit, name)
			}
			tag, _, _ := strings.Cut(key[len("p{"):], "}")
			if tag == "" || slotOf(key) != slotOf(tag) {
				t.Errorf("%q is in slot %d, its tag %q in %d", key, slotOf(key), tag, slotOf(tag))
			}
		}
	})
}
