package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// verify is what docs/scale-out.md shows.
func verify(r *http.Request, body []byte, secret string) error {
	id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return errors.New("the message is too old, or somebody has sent it again")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if !hmac.Equal([]byte(want), []byte(r.Header.Get("Webhook-Signature"))) {
		return errors.New("the message is not signed with this secret")
	}
	return nil
}

// block returns the first block of a language about the webhook in docs/scale-out.md.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/scale-out.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)\n## Webhook\n.*?\n```" + language + "\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/scale-out.md has no %s", language)
	}
	return string(m[1])
}

// The code that the documentation shows is verify, which accepts what is signed, and nothing else.
func TestDocumentedVerification(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), "\n"+block(t, "go")) {
		t.Error("docs/scale-out.md shows other code than this file")
	}
	secret := strings.Repeat("s", leastKey)
	key, err := keyOf(secret)
	if err != nil {
		t.Fatal(err)
	}
	body, now := []byte(`{"type": "sluice.pressure"}`), time.Now()
	for _, c := range []struct {
		what   string
		at     time.Time
		change func(h http.Header)
		secret string
		ok     bool
	}{
		{"as it is sent", now, func(http.Header) {}, secret, true},
		{"another secret", now, func(http.Header) {}, secret + "s", false},
		{"another id", now, func(h http.Header) { h.Set("Webhook-Id", "msg_2") }, secret, false},
		{"a newer time", now, func(h http.Header) { h.Set("Webhook-Timestamp", timestamp(now.Add(time.Minute))) }, secret, false},
		{"an old one", now.Add(-6 * time.Minute), func(http.Header) {}, secret, false},
		{"one of the future", now.Add(6 * time.Minute), func(http.Header) {}, secret, false},
		{"no time", now, func(h http.Header) { h.Del("Webhook-Timestamp") }, secret, false},
		{"no signature", now, func(h http.Header) { h.Del("Webhook-Signature") }, secret, false},
	} {
		r := &http.Request{Header: http.Header{}}
		r.Header.Set("Webhook-Id", "msg_1")
		r.Header.Set("Webhook-Timestamp", timestamp(c.at))
		r.Header.Set("Webhook-Signature", sign(key, "msg_1", timestamp(c.at), body))
		c.change(r.Header)
		if err := verify(r, body, c.secret); (err == nil) != c.ok {
			t.Errorf("%s: accepted should be %v, got %v", c.what, c.ok, err)
		}
	}
}

// The message that the documentation shows is one that could be sent.
func TestDocumentedMessage(t *testing.T) {
	text := block(t, "json")
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var m Message
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`\s`).ReplaceAllString(text, ""); string(again) != want {
		t.Errorf("%s is shown as %s", again, want)
	}
}
