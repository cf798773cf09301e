package remote

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// section is the path of the settings in the configuration.
const section = "store.redis"

// Check checks the settings.
func (r *Settings) Check(s *reader.Source) {
	r.checkAddress(s)
	r.checkAccess(s)
	r.checkKeys(s)
	r.checkCalls(s)
}

// checkAddress checks where the server is.
func (r *Settings) checkAddress(s *reader.Source) {
	in := func(name string) string { return section + "." + name }
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
	secret.CheckSource(s, path, "password", st.PasswordFile, st.PasswordEnv)
	if st.User != "" && st.PasswordFile == "" && st.PasswordEnv == "" {
		s.Follow(path+".user", "is given without a password", "give password_file or password_env")
	}
}

// checkAddresses checks a list of host:port.
func checkAddresses(s *reader.Source, path string, list []string, port string) {
	for i, a := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		host, n, problem := reader.SplitAddress(a)
		shown, suggestion := reader.Quote(a), "write host:port as in 127.0.0.1:"+port
		switch {
		case strings.Contains(a, "://"):
			shown = "the address"
			if !strings.Contains(a, "@") {
				shown = reader.Quote(a)
			}
			problem, suggestion = "is a URL, and host:port is wanted", "write "+Mapping(a)
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
func (r *Settings) checkAccess(s *reader.Source) {
	t, path := &r.TLS, section+".tls"
	if (t.Cert == "") != (t.Key == "") {
		s.Follow(path, "has only one of certificate and key", "give cert and key, or neither")
	}
	if r.Socket != "" && *t != (TLS{}) {
		s.FollowKey(path, "is given, and a socket is too, which has none", "remove it, or give addresses")
	}
	secret.CheckSource(s, section, "password", r.PasswordFile, r.PasswordEnv)
	if r.User != "" && r.PasswordFile == "" && r.PasswordEnv == "" {
		s.Follow(section+".user", "is given without a password", "give password_file or password_env")
	}
}

// maxPrefix bounds the prefix, in bytes, because every key repeats it.
const maxPrefix = 128

// checkKeys checks how keys are written.
func (r *Settings) checkKeys(s *reader.Source) {
	in := func(name string) string { return section + "." + name }
	switch {
	case r.Prefix == "" && s.Has(in("prefix")):
		s.Follow(in("prefix"), "is empty", "give a text, or remove the line for "+defaultPrefix)
	case strings.ContainsAny(r.Prefix, "{}"):
		s.Follow(in("prefix"), reader.Quote(r.Prefix)+" has a brace, which selects the slot in a cluster", "remove it")
	case len(r.Prefix) > maxPrefix:
		s.Follow(in("prefix"), fmt.Sprintf("has %d bytes, which every key repeats", len(r.Prefix)), fmt.Sprintf("give %d at most", maxPrefix))
	}
	if h := r.HashKeys; h != nil {
		secret.CheckSource(s, in("hash_keys"), "secret", h.SecretFile, h.SecretEnv)
		if h.SecretFile == "" && h.SecretEnv == "" {
			s.Follow(in("hash_keys"), "has no secret", "give secret_file or secret_env")
		}
	}
	switch {
	case r.Tenant < 0 || r.Tenant == 0 && s.Has(in("tenant")):
		s.Follow(in("tenant"), fmt.Sprintf("is %d", r.Tenant), "give the number of a key's part, from 1")
	case r.Tenant > 0 && !r.Cluster:
		s.Follow(in("tenant"), "is given without cluster: true, and it selects the slot in a cluster", "remove it")
	}
}

// maxInFlight bounds the setting in_flight.
const maxInFlight = 1 << 20

// checkCalls checks the bounds of calls. A zero in a File that a program made means the default.
func (r *Settings) checkCalls(s *reader.Source) {
	at := section + ".deadline"
	if (r.Deadline != 0 || s.Has(at)) && (r.Deadline < time.Millisecond || r.Deadline > time.Minute) {
		s.Follow(at, fmt.Sprintf("is %v", r.Deadline), "give 1ms to 1m; a request waits that long at most")
	}
	at = section + ".in_flight"
	if (r.InFlight != 0 || s.Has(at)) && (r.InFlight < 1 || r.InFlight > maxInFlight) {
		s.Follow(at, fmt.Sprintf("is %d", r.InFlight), fmt.Sprintf("give 1 to %d", maxInFlight))
	}
}

// Check checks the settings of the fallback, which is used if a rule limits locally.
func (l *Fallback) Check(s *reader.Source, used bool) {
	if used && l.Share == (reader.Share{}) {
		s.Follow(section+".local.share", "is missing, and a rule limits locally while the store is down", "give 1/4 if four servers share the limits, or 1 for a single server")
	}
}
