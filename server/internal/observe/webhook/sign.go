package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The headers of the Standard Webhooks specification.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// leastKey is the least length of the key, in bytes.
const leastKey = 24

// checkSecret returns why a secret cannot sign messages. The error does not show the secret.
func checkSecret(secret string) error {
	_, err := keyOf(secret)
	return err
}

// keyOf reads a secret: base64 after whsec_, otherwise the key itself.
func keyOf(secret string) ([]byte, error) {
	key := []byte(secret)
	if text, ok := strings.CutPrefix(secret, "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			// The error of the decoder would show the secret.
			return nil, errors.New("the secret begins with whsec_, and the rest is not base64; give it as it was made")
		}
	}
	if len(key) < leastKey {
		return nil, fmt.Errorf("the secret has %d bytes, which can be guessed; give %d or more, such as from: openssl rand -hex 32", len(key), leastKey)
	}
	return key, nil
}

// timestamp is the time of a message, in seconds.
func timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// sign returns the signature of a message.
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
