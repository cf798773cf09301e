package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice"
)

// A key of the server is
//
//	prefix{key}:limit          the state of a limit's key, of a token bucket
//	prefix{key}fixed:limit     the same for another algorithm: see the words of kinds
//	prefix{key}h:limit         its holds, and {key}hfixed:limit the holds of another algorithm's state
//	prefix{key}!limit          the ban, for all algorithms
//	prefix{tenant}key}:limit   with Options.Tenant
//
// The text in braces chooses the slot in a cluster, so that all limits of a key and their bans
// share a slot. A key of several parts has the number of parts between the brace and the word.
// Different keys always have different texts. A closing brace in a key is escaped, and only
// digits and letters are between the last brace and the colon or exclamation mark.

// holdsWord comes before the word of an algorithm in the keys of holds.
const holdsWord = "h"

// Longer texts are stored as a digest, so that clients cannot fill the server.
const (
	maxKeyText  = 160
	maxNameText = 64
)

// names makes the keys of the server.
type names struct {
	prefix string
	secret []byte
	tenant func(sluice.Key) string
}

// stem returns the common beginning of all server keys of a limit's key.
func (n *names) stem(k sluice.Key) string {
	var room [maxServerKey]byte // most fit
	return string(n.appendStem(room[:0], k))
}

// maxServerKey is the length of the longest keys that are made in one allocation.
const maxServerKey = 128

// appendStem appends the stem of a key.
func (n *names) appendStem(b []byte, k sluice.Key) []byte {
	b = append(append(b, n.prefix...), '{')
	if n.tenant != nil {
		b = append(n.appendText(b, "t", n.tenant(k)), '}')
	}
	b = append(n.appendText(b, "k", k.Text()), '}')
	if k.Len() != 1 {
		b = strconv.AppendInt(b, int64(k.Len()), 10)
	}
	return b
}

// slot returns the slot of all server keys of a limit's key.
func (n *names) slot(k sluice.Key) uint16 {
	var room [maxKeyText]byte // most texts fit
	var tag []byte
	if n.tenant != nil {
		tag = n.appendText(room[:0], "t", n.tenant(k))
	} else {
		tag = n.appendText(room[:0], "k", k.Text())
	}
	return crcOf(tag) % slots
}

// appendText appends a text so that it has no closing brace and is not empty. A percent sign
// escapes; "%!" and "%#" begin a digest.
func (n *names) appendText(b []byte, domain, text string) []byte {
	switch {
	case len(n.secret) > 0:
		mac := hmac.New(sha256.New, n.secret)
		mac.Write([]byte(domain + text))
		return base64.RawURLEncoding.AppendEncode(append(b, '%', '!'), mac.Sum(nil)[:16])
	case text == "":
		return append(b, '%')
	case len(text) > maxKeyText:
		sum := sha256.Sum256([]byte(text))
		return base64.RawURLEncoding.AppendEncode(append(b, '%', '#'), sum[:])
	case strings.IndexByte(text, '%') < 0 && strings.IndexByte(text, '}') < 0:
		return append(b, text...)
	}
	for i := range len(text) {
		switch c := text[i]; c {
		case '%':
			b = append(b, "%25"...)
		case '}':
			b = append(b, "%7D"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// parseBan reads the server's key of a ban: the banned key, and the limit.
func (n *names) parseBan(text string) (b sluice.BannedKey, ok bool) {
	text, ok = strings.CutPrefix(text, n.prefix+"{")
	if ok && n.tenant != nil {
		_, text, ok = strings.Cut(text, "}")
	}
	key, text, closed := strings.Cut(text, "}")
	parts, limit, isBan := strings.Cut(text, "!")
	if !ok || !closed || !isBan {
		return b, false
	}
	number := 1
	if parts != "" {
		var err error
		if number, err = strconv.Atoi(parts); err != nil {
			return b, false
		}
	}
	b.Limit = limit
	switch {
	case strings.HasPrefix(key, "%!"), strings.HasPrefix(key, "%#"):
		b.Digest = key[1:]
	case key == "%":
		b.Key = sluice.EncodedKey("", number)
	default:
		b.Key = sluice.EncodedKey(unescaper.Replace(key), number)
	}
	return b, true
}

// unescaper undoes what appendText escapes.
var unescaper = strings.NewReplacer("%25", "%", "%7D", "}")

// suffix returns the end of a limit's server keys, after ':' or '!': its name.
func suffix(l *sluice.Limit) string {
	name := l.Name()
	if len(name) <= maxNameText && !strings.HasPrefix(name, "#") {
		return name
	}
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], l.NameID()[0])
	binary.BigEndian.PutUint64(id[8:], l.NameID()[1])
	return "#" + base64.RawURLEncoding.EncodeToString(id[:])
}
