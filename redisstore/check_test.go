package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

// TestCheckSpeaksClearly: what is wrong with a server is said with its remedy.
func TestCheckSpeaksClearly(t *testing.T) {
	for _, c := range []struct {
		name, info string
		err        error
		cluster    bool
		want       string // part of the error
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
		{"full", "", &ServerError{"OOM command not allowed when used memory > 'maxmemory'."}, false, "raise maxmemory", ""},
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
			t.Errorf("%s: a good server was refused: %v", c.name, err)
		}
		if warnings := strings.Join(report.Warnings, "; "); !strings.Contains(warnings, c.warn) || c.warn == "" && warnings != "" {
			t.Errorf("%s: warnings %q, want %q", c.name, warnings, c.warn)
		}
		var misfit *MisfitError
		if c.want != "" && errors.As(err, &misfit) == (c.name == "loading" || c.name == "full") {
			t.Errorf("%s: whether a retry helps is wrong: %v", c.name, err)
		}
		if c.name == "valkey" && report.Server != "valkey 8.0.1" {
			t.Errorf("the server is %q", report.Server)
		}
	}
}

// TestCheckOfACluster: a warning about several masters is given once, with their addresses.
func TestCheckOfACluster(t *testing.T) {
	const well = "redis_version:7.0.15\r\ncluster_enabled:1"
	evicts := well + "\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru"
	loading := well + "\r\nloading:1"
	for _, c := range []struct {
		name   string
		infos  []string // one for each master; empty: no answer
		server string
		warn   []string // what the warnings begin with
		err    string
	}{
		{"well", []string{well, well, well}, "redis 7.0.15", nil, ""},
		{"versions", []string{well, well + "\r\nvalkey_version:8.0.1", well}, "redis 7.0.15, valkey 8.0.1", nil, ""},
		{"one evicts", []string{well, evicts, well}, "redis 7.0.15", []string{"the master b: maxmemory-policy"}, ""},
		{"two evict", []string{evicts, well, evicts}, "redis 7.0.15", []string{"the masters a, c: maxmemory-policy"}, ""},
		{"five evict", []string{evicts, evicts, evicts, evicts, evicts}, "redis 7.0.15", []string{"the masters a, b, c and 2 more: maxmemory-policy"}, ""},
		{"one is silent", []string{well, "", evicts}, "redis 7.0.15", []string{"the master b: the call was lost", "the master c: maxmemory-policy"}, ""},
		{"one loads", []string{loading, well}, "redis 7.0.15", []string{"the master a: the server is still loading"}, ""},
		{"none can be used", []string{"", loading}, "redis 7.0.15", nil, "the master a: the call was lost"},
		{"one is too old", []string{well, "redis_version:4.0.14\r\ncluster_enabled:1", ""}, "redis 7.0.15, redis 4.0.14", nil, "the master b: the server is redis 4.0.14; version 5.0"},
		{"none has slots", []string{}, "", nil, "no node of the cluster has slots"},
	} {
		masters := make([]Master, len(c.infos))
		for i := range masters {
			masters[i] = Master{Address: string(rune('a' + i)), Slot: 1000 * i}
		}
		client := &checkedClient{fakeClient{reply: "\x01\x01", masters: masters, infoOf: func(key string) (string, error) {
			if text := c.infos[slotOf(key)/1000]; text != "" {
				return text, nil
			}
			return "", errors.New("the call was lost")
		}}}
		s, err := New(client, Options{Cluster: true, Secret: []byte("0123456789abcdef"), Tenant: func(sluice.Key) string { return "x" }})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Check(t.Context())
		if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), "redisstore: "+c.err) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.err)
		}
		if r.Server != c.server {
			t.Errorf("%s: the server is %q, want %q", c.name, r.Server, c.server)
		}
		ok := len(r.Warnings) == len(c.warn)
		for i := range min(len(r.Warnings), len(c.warn)) {
			ok = ok && strings.HasPrefix(r.Warnings[i], c.warn[i])
		}
		if !ok {
			t.Errorf("%s: warnings %q, want %q", c.name, r.Warnings, c.warn)
		}
	}
}

// checkedClient decides as a server that has no state yet, for keys of the first slot of a master.
type checkedClient struct{ fakeClient }

func (c *checkedClient) EvalSHA(_ context.Context, _ string, keys, _ []string) (string, error) {
	if slotOf(keys[0])%1000 != 0 {
		return "", fmt.Errorf("slot %d is not the first of a master", slotOf(keys[0]))
	}
	return c.reply, nil
}
