package redisstore

import (
	"strings"
	"testing"
)

// TestCheckSpeaksClearly: what is wrong with a server is said with its remedy.
func TestCheckSpeaksClearly(t *testing.T) {
	for _, c := range []struct {
		name, info string
		err        error
		cluster    bool
		want       string // of the error
		warn       string
	}{
		{"too old", "redis_version:4.0.14", nil, false, "5.0 or later", ""},
		{"cluster without a cluster client", "redis_version:7.0.15\r\ncluster_enabled:1", nil, false, "cluster client", ""},
		{"cluster client without a cluster", "redis_version:7.0.15\r\ncluster_enabled:0", nil, true, "", "not in a cluster"},
		{"replica", "redis_version:7.0.15\r\nrole:slave", nil, false, "primary", ""},
		{"loading", "redis_version:7.0.15\r\nloading:1", nil, false, "loading", ""},
		{"evicts", "redis_version:7.0.15\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru", nil, false, "", "noeviction"},
		{"would evict", "redis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:volatile-ttl", nil, false, "", "noeviction"},
		{"valkey", "redis_version:7.2.4\r\nvalkey_version:8.0.1", nil, false, "", ""},
		{"password", "", &ServerError{"NOAUTH Authentication required."}, false, "give one", ""},
		{"permission", "", &ServerError{"NOPERM this user has no permissions to run the 'info' command"}, false, "docs/redis.md", ""},
		{"permission in a script", "", &ServerError{"ERR The user executing the script can't run this command or subcommand script: 7b"}, false, "docs/redis.md", ""},
	} {
		s := store(t, Options{Cluster: c.cluster})
		fake := s.client.(*fakeClient)
		fake.info, fake.errSHA, fake.reply = c.info, c.err, "\x01\x01"
		report, err := s.Check(t.Context())
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if c.want == "" && err != nil && !strings.Contains(err.Error(), "disagree") {
			t.Errorf("%s: %v", c.name, err)
		}
		if warnings := strings.Join(report.Warnings, "; "); !strings.Contains(warnings, c.warn) || c.warn == "" && warnings != "" {
			t.Errorf("%s: warnings %q, want %q", c.name, warnings, c.warn)
		}
		if c.name == "valkey" && report.Server != "valkey 8.0.1" {
			t.Errorf("the server is %q", report.Server)
		}
	}
}
