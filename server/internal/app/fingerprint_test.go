package app

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const onePerHour = "rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]"

// Servers with the same secret have the same fingerprint of a key in their logs. Without a secret nobody can
// compare the logs of two servers.
func TestFingerprintsOfAFleet(t *testing.T) {
	const secret = "0123456789abcdef-of-the-fleet"
	t.Setenv("FLEET_SECRET", secret)
	t.Setenv("OTHER_SECRET", secret+"-2")
	fingerprint := func(log string) string {
		t.Helper()
		r := start(t, parse(t, free+log+onePerHour), nil)
		r.status(Proxy, "/")
		if got := r.status(Proxy, "/"); got != http.StatusTooManyRequests {
			t.Fatalf("answers %d", got)
		}
		m := regexp.MustCompile(`msg=denied .*key=([0-9a-f]{16}) `).FindStringSubmatch(r.log.String())
		if m == nil || strings.Contains(r.log.String(), secret) {
			t.Fatalf("the log:\n%s", r.log)
		}
		if _, text := r.send(Admin, http.MethodGet, "/v1/keys", ""); !strings.Contains(text, m[1]) {
			t.Errorf("/v1/keys has another fingerprint than the log, %s: %s", m[1], text)
		}
		return m[1]
	}
	const shared = "log: {key_secret_env: FLEET_SECRET}\n"
	one, two := fingerprint(shared), fingerprint(shared)
	other, none := fingerprint("log: {key_secret_env: OTHER_SECRET}\n"), fingerprint("")
	if one != two {
		t.Errorf("two servers with one secret have %s and %s", one, two)
	}
	if other == one || none == one || none == other {
		t.Errorf("servers without a common secret have %s, %s and %s", one, other, none)
	}
}

func TestFingerprintsNeedASecretThatIsNone(t *testing.T) {
	t.Setenv("FLEET_SECRET", "short")
	for log, want := range map[string]string{
		"log: {key_secret_env: FLEET_SECRET}\n":         "the secret has 5 bytes, which can be guessed; give 16 random bytes or more",
		"log: {key_secret_env: NOT_SET_ANYWHERE}\n":     "log.key_secret_env: NOT_SET_ANYWHERE is not set in the environment",
		"log: {key_secret_file: /nonexistent/secret}\n": "log.key_secret_file: open /nonexistent/secret",
	} {
		a, err := New(Options{File: parse(t, free+log+onePerHour), Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			a.Close()
			t.Errorf("%s: started", log)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "short") {
			t.Errorf("%s: the error is %v, want %q without the secret", log, err, want)
		}
	}
}
