package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/policy"
)

// redisPath is the path of the settings of the store in Redis.
const redisPath = "store.redis"

// checkStore checks the settings of the store.
func (f *File) checkStore(s *reader.Source) {
	r := f.Store.Redis
	if r == nil {
		f.Store.Memory.check(s)
		return
	}
	if s.Has("store.memory") {
		s.FollowKey("store.memory", "is given, and redis is too", "give one store; the fallback in memory is redis.local")
	}
	r.checkAddress(s)
	r.checkAccess(s)
	r.checkKeys(s, f.Rules)
	r.checkCalls(s)
	r.Local.check(s, redisPath+".local", f.usesLocal())
}

// usesLocal reports whether a rule limits locally while the store is down.
func (f *File) usesLocal() bool {
	return slices.ContainsFunc(f.Rules, func(r rules.Rule) bool {
		return r.OnStoreError == policy.FallbackLocal || r.OnStoreError == policy.FallbackDefault && f.OnStoreError == policy.FallbackLocal
	})
}

// checkAddress checks where the server is.
func (r *RedisStore) checkAddress(s *reader.Source) {
	in := func(name string) string { return redisPath + "." + name }
	switch {
	case r.Sentinel != nil:
		r.Sentinel.check(s, in("sentinel"))
		if len(r.Addresses) > 0 {
			s.FollowKey(in("addresses"), "are given, and a sentinel is too, which finds the address", "give the addresses of the sentinels as sentinel.addresses, and no others")
		}
		if r.Socket != "" {
			s.FollowKey(in("socket"), "is given, and a sentinel is too, which finds the address", "give one of them")
		}
		if r.Cluster {
			s.FollowKey(in("cluster"), "is given, and a sentinel is too", "give one of them: a cluster has no sentinels")
		}
	case r.Socket != "":
		if len(r.Addresses) > 0 {
			s.FollowKey(in("addresses"), "are given, and a socket is too", "give one of them")
		}
		if r.Cluster {
			s.FollowKey(in("cluster"), "is given, and a socket is too, which reaches only one node", "give addresses")
		}
	case s.Failed(in("url")), s.Failed(in("uri")), s.Failed(in("dsn")): // the address is there
	case len(r.Addresses) == 0:
		if s.Has(in("socket")) {
			s.Follow(in("socket"), "is empty", "give the path of the server's socket, or addresses")
		} else {
			s.Follow(in("addresses"), "is missing", "say where the server is, as in addresses: [127.0.0.1:6379], or with socket or sentinel")
		}
	case len(r.Addresses) > 1 && !r.Cluster:
		s.Follow(in("addresses"), fmt.Sprintf("has %d addresses, and one server has one", len(r.Addresses)),
			"give cluster: true for the nodes of a cluster, or sentinel for a server that has replicas")
	}
	checkAddresses(s, in("addresses"), r.Addresses, "6379")
	if r.Cluster && r.Database != 0 {
		s.Follow(in("database"), fmt.Sprintf("is %d, and a cluster has only database 0", r.Database), "remove it, and give a prefix to separate what shares the cluster")
	}
}

func (st *Sentinel) check(s *reader.Source, path string) {
	if st.Master == "" {
		s.Follow(path+".master", "is missing", "give the name that sentinel.conf has after \"sentinel monitor\"")
	}
	if len(st.Addresses) == 0 {
		s.Follow(path+".addresses", "is missing", "give the addresses of the sentinels, as in [127.0.0.1:26379]")
	}
	checkAddresses(s, path+".addresses", st.Addresses, "26379")
	checkSecret(s, path, "password", st.PasswordFile, st.PasswordEnv)
	if st.User != "" && st.PasswordFile == "" && st.PasswordEnv == "" {
		s.Follow(path+".user", "is given without a password", "give password_file or password_env")
	}
}

// checkAddresses checks a list of host:port.
func checkAddresses(s *reader.Source, path string, list []string, port string) {
	for i, a := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		host, n, problem := splitAddress(a)
		shown, suggestion := reader.Quote(a), "write host:port as in 127.0.0.1:"+port
		switch {
		case strings.Contains(a, "://"):
			shown = "the address"
			if !strings.Contains(a, "@") {
				shown = reader.Quote(a)
			}
			problem, suggestion = "is a URL, and host:port is wanted", "write "+redisMapping(a)
		case strings.Contains(a, "@"): // there could be a password before it
			shown, problem, suggestion = "the address", "has a user in it", "write host:port, and give user and password_file beside it"
		case problem == "has no port" && !strings.ContainsAny(a, " \t/*"):
			suggestion = "write " + reader.Quote(a+":"+port)
		case strings.HasPrefix(a, "/"):
			problem, suggestion = "is a path", "give it as socket"
		case problem == "" && host == "":
			problem = "has no host"
		case problem == "" && n == 0, strings.HasPrefix(problem, "has no port from"):
			problem = "has no port from 1 to 65535"
		case problem != "":
		case slices.Contains(list[:i], a):
			problem, suggestion = "is there twice", "remove one of them"
		}
		if problem != "" {
			s.Follow(at, shown+" "+problem, suggestion)
		}
	}
}

// checkAccess checks how Sluice and the server authenticate each other.
func (r *RedisStore) checkAccess(s *reader.Source) {
	t, path := &r.TLS, redisPath+".tls"
	if (t.Cert == "") != (t.Key == "") {
		s.Follow(path, "has only one of certificate and key", "give cert and key, or neither")
	}
	if r.Socket != "" && *t != (RedisTLS{}) {
		s.FollowKey(path, "is given, and a socket is too, which has none", "remove it, or give addresses")
	}
	checkSecret(s, redisPath, "password", r.PasswordFile, r.PasswordEnv)
	if r.User != "" && r.PasswordFile == "" && r.PasswordEnv == "" {
		s.Follow(redisPath+".user", "is given without a password", "give password_file or password_env")
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkSecret checks where a secret comes from. A faulty value may be the secret
// itself, so no error shows it.
func checkSecret(s *reader.Source, path, name, file, env string) {
	if file != "" && env != "" {
		s.Follow(path+"."+name+"_env", fmt.Sprintf("is given, and %s_file is too", name), "give one of them")
	}
	if s.Has(path+"."+name+"_file") && file == "" {
		s.Follow(path+"."+name+"_file", "is empty", "give the path of a file, or remove the line")
	}
	if env == "" && !s.Has(path+"."+name+"_env") {
		return
	}
	if !variableName.MatchString(env) {
		whose := path[strings.LastIndex(path, ".")+1:] // redis, webhook
		s.Follow(path+"."+name+"_env", "is not a name of an environment variable", "give only the name, such as "+strings.ToUpper(whose+"_"+name))
	}
}

// maxPrefix bounds the prefix, in bytes, because every key repeats it.
const maxPrefix = 128

// checkKeys checks how keys are written.
func (r *RedisStore) checkKeys(s *reader.Source, all []rules.Rule) {
	in := func(name string) string { return redisPath + "." + name }
	switch {
	case r.Prefix == "" && s.Has(in("prefix")):
		s.Follow(in("prefix"), "is empty", "give a text, or remove the line for "+defaultRedisPrefix)
	case strings.ContainsAny(r.Prefix, "{}"):
		s.Follow(in("prefix"), reader.Quote(r.Prefix)+" has a brace, which selects the slot in a cluster", "remove it")
	case len(r.Prefix) > maxPrefix:
		s.Follow(in("prefix"), fmt.Sprintf("has %d bytes, which every key repeats", len(r.Prefix)), fmt.Sprintf("give %d at most", maxPrefix))
	}
	if h := r.HashKeys; h != nil {
		checkSecret(s, in("hash_keys"), "secret", h.SecretFile, h.SecretEnv)
		if h.SecretFile == "" && h.SecretEnv == "" {
			s.Follow(in("hash_keys"), "has no secret", "give secret_file or secret_env")
		}
	}
	switch {
	case r.Tenant < 0 || r.Tenant == 0 && s.Has(in("tenant")):
		s.Follow(in("tenant"), fmt.Sprintf("is %d", r.Tenant), "give the number of a key's part, from 1")
	case r.Tenant > 0 && !r.Cluster:
		s.Follow(in("tenant"), "is given without cluster: true, and it selects the slot in a cluster", "remove it")
	case r.Tenant > 0:
		for i := range all {
			n, at := len(all[i].Key), "key"
			if n == 0 && all[i].Descriptor != nil {
				n, at = all[i].Descriptor.KeyParts(), "descriptor"
			}
			if n > 0 && n < r.Tenant {
				s.Follow(fmt.Sprintf("rules[%d].%s", i, at), fmt.Sprintf("has %s, and %s.tenant is %d", parts(n), redisPath, r.Tenant),
					"put the tenant into that part of every rule's key")
			}
		}
	}
}

func parts(n int) string {
	if n == 1 {
		return "1 part"
	}
	return fmt.Sprintf("%d parts", n)
}

// maxInFlight bounds the setting in_flight.
const maxInFlight = 1 << 20

// checkCalls checks the bounds of calls. A zero in a File that a program made means the default.
func (r *RedisStore) checkCalls(s *reader.Source) {
	at := redisPath + ".deadline"
	if (r.Deadline != 0 || s.Has(at)) && (r.Deadline < time.Millisecond || r.Deadline > time.Minute) {
		s.Follow(at, fmt.Sprintf("is %v", r.Deadline), "give 1ms to 1m; a request waits that long at most")
	}
	at = redisPath + ".in_flight"
	if (r.InFlight != 0 || s.Has(at)) && (r.InFlight < 1 || r.InFlight > maxInFlight) {
		s.Follow(at, fmt.Sprintf("is %d", r.InFlight), fmt.Sprintf("give 1 to %d", maxInFlight))
	}
}

func (l *LocalStore) check(s *reader.Source, path string, used bool) {
	if used && l.Share == (reader.Share{}) {
		s.Follow(path+".share", "is missing, and a rule limits locally while the store is down", "give 1/4 if four servers share the limits, or 1 for a single server")
	}
}
