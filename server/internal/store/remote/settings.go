package remote

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Settings holds the settings of a store in Redis or Valkey, which any number of
// servers share. See docs/redis.md.
type Settings struct {
	// Addresses are the host:port of the server, or of some nodes of a cluster. Required, unless socket or
	// sentinel is given.
	Addresses []string `yaml:"addresses"`
	// Socket is the path of the server's Unix socket, instead of addresses. Default: none.
	Socket string `yaml:"socket"`
	// Cluster is true for the nodes of a cluster. Default: false.
	Cluster bool `yaml:"cluster"`
	// Sentinel finds the address of the server by Redis Sentinel. Default: none.
	Sentinel *Sentinel `yaml:"sentinel"`
	// TLS is true, or a mapping, for servers and sentinels that use TLS. Default: false.
	TLS TLS `yaml:"tls"`
	// User is a user of the server's ACL. Default: the server's default user.
	User string `yaml:"user"`
	// PasswordFile is a file that holds the password. White space around it is ignored. Give
	// password_file, password_env or neither. Default: none.
	PasswordFile string `yaml:"password_file" path:"read"`
	// PasswordEnv is the environment variable that holds the password. Default: none.
	PasswordEnv string `yaml:"password_env"`
	// Database is the number of the database. Default: 0.
	Database int `yaml:"database"`
	// Prefix begins every key. Servers that share limits have the same prefix. Default: "sluice".
	Prefix string `yaml:"prefix"`
	// HashKeys stores keys hashed under a secret. Default: none, so keys are stored as they are.
	HashKeys *HashKeys `yaml:"hash_keys"`
	// Tenant is the number of the part of keys that selects the slot in a cluster, counted from 1.
	// The key of every rule must have that many parts. Default: the whole key.
	Tenant int `yaml:"tenant" unit:"number of a part"`
	// Deadline is how long a call may take before on_store_error applies, 1ms to 1m. Default: 50ms.
	Deadline time.Duration `yaml:"deadline"`
	// InFlight is how many calls may be in flight, to each node of a cluster. Beyond that,
	// on_store_error applies at once. Default: 1024.
	InFlight int `yaml:"in_flight" unit:"calls"`
	// Local is for rules with on_store_error: local.
	Local Fallback `yaml:"local"`
}

// Sentinel finds the address of the server by Redis Sentinel.
type Sentinel struct {
	// Master is the name of the server in the configuration of the sentinels. Required.
	Master string `yaml:"master"`
	// Addresses are the host:port of the sentinels. Required.
	Addresses []string `yaml:"addresses"`
	// User is the user for the sentinels themselves. Default: none.
	User string `yaml:"user"`
	// PasswordFile is a file that holds the password for the sentinels. Default: none.
	PasswordFile string `yaml:"password_file" path:"read"`
	// PasswordEnv is the environment variable that holds this password. Default: none.
	PasswordEnv string `yaml:"password_env"`
}

// TLS holds the certificates for a server that uses TLS 1.2 or later.
type TLS struct {
	// Enabled is true if the server uses TLS. Any other setting of TLS implies it.
	Enabled bool
	// CA is a file of certificates, in PEM, to trust instead of the system's. Default: the system's.
	CA string `yaml:"ca" path:"read"`
	// Cert is the file of Sluice's own certificate, in PEM. Give cert and key, or neither. Default: none.
	Cert string `yaml:"cert" path:"read"`
	// Key is the file of the private key of cert, in PEM. Default: none.
	Key string `yaml:"key" path:"read"`
	// ServerName is the name to expect in the server's certificate. Default: the host of the address.
	ServerName string `yaml:"server_name"`
}

// HashKeys holds the secret under which keys are hashed. The secret has 16 bytes or
// more, and all servers that share limits have the same. Give secret_file or secret_env.
type HashKeys struct {
	// SecretFile is a file that holds the secret. White space around it is ignored.
	SecretFile string `yaml:"secret_file" path:"read"`
	// SecretEnv is the environment variable that holds the secret.
	SecretEnv string `yaml:"secret_env"`
}

// Fallback holds the settings of the fallback that limits in this process while Redis does not answer.
type Fallback struct {
	// Share is the part of each limit that this server may admit by itself, such as 1/4 for one
	// of four servers. Required where a rule has on_store_error: local.
	Share reader.Share `yaml:"share" hint:": one of four servers has 1/4"`
	// MaxSize bounds the memory of the fallback. Default: 256MiB.
	MaxSize reader.Size `yaml:"max_size"`
}

const (
	defaultPrefix   = "sluice"
	defaultDeadline = 50 * time.Millisecond
	defaultInFlight = 1024
)

// Default returns the settings of a store in Redis with all defaults. It needs an address.
func Default() Settings {
	return Settings{Prefix: defaultPrefix, Deadline: defaultDeadline, InFlight: defaultInFlight}
}

// SetDefaults implements [reader.Defaulter].
func (r *Settings) SetDefaults() { *r = Default() }

// Word recognizes the URL of a server.
func (*Settings) Word(text string) (problem, suggestion string, ok bool) {
	if !strings.Contains(text, "://") {
		return "", "", false
	}
	return "is a URL, and a mapping is wanted", "write redis: {" + Mapping(text) + "}", true
}

// Unknown has a remedy for passwords, which a file must not contain, and for the names that other programs
// use.
func (*Settings) Unknown(name, text string) string {
	switch strings.ToLower(name) {
	case "url", "uri", "dsn":
		if strings.Contains(text, "://") {
			return "write " + Mapping(text)
		}
		return "give addresses: [HOST:PORT], and user and password_file beside it"
	case "share", "max_size":
		return "it belongs to local: {" + name + ": …}"
	case "timeout", "read_timeout":
		return `did you mean "deadline"?`
	}
	return passwordRemedy(name)
}

// Unknown has a remedy for passwords, which a file must not contain.
func (*Sentinel) Unknown(name, text string) string { return passwordRemedy(name) }

// Unknown has a remedy for secrets, which a file must not contain.
func (*HashKeys) Unknown(name, text string) string {
	if strings.EqualFold(name, "secret") {
		return "a secret does not belong in this file; give secret_file or secret_env"
	}
	return ""
}

// Unknown has a remedy for the names that other programs use.
func (*Fallback) Unknown(name, text string) string {
	if name == "instances" || name == "processes" {
		return "give share: 1/4 for one of four"
	}
	return ""
}

// Mapping returns the settings that mean the same as the URL of a server. It does not repeat a password, nor a
// user, which may be a password.
func Mapping(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" && u.Path == "" {
		return "addresses: [HOST:PORT]"
	}
	var all []string
	if u.Scheme == "unix" || u.Host == "" {
		all = append(all, "socket: "+u.Path)
	} else {
		var addresses []string
		for _, host := range strings.Split(u.Host, ",") {
			if _, _, err := net.SplitHostPort(host); err != nil {
				host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
			}
			addresses = append(addresses, strconv.Quote(host))
		}
		all = append(all, "addresses: ["+strings.Join(addresses, ", ")+"]")
		if n, err := strconv.ParseUint(strings.Trim(u.Path, "/"), 10, 16); err == nil && n > 0 {
			all = append(all, fmt.Sprintf("database: %d", n))
		}
	}
	if u.Scheme == "rediss" || u.Scheme == "valkeys" {
		all = append(all, "tls: true")
	}
	if u.User != nil {
		if u.User.Username() != "" {
			all = append(all, "user: NAME")
		}
		all = append(all, "password_file: FILE")
	}
	return strings.Join(all, ", ")
}

func passwordRemedy(name string) string {
	if reader.Nearest(name, []string{"password", "pass", "auth"}) == "" {
		return ""
	}
	return "a password does not belong in this file; give password_file or password_env"
}

// Written implements [reader.Written].
func (t TLS) Written() string {
	if t == (TLS{Enabled: true}) {
		return "true"
	}
	return ""
}

// Switch implements [reader.Switch].
func (t *TLS) Switch() *bool { return &t.Enabled }
