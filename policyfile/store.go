package policyfile

import (
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Store says where state is kept: "memory" alone, or one store with its settings.
type Store struct {
	// Memory keeps state in the server's own process.
	Memory MemoryStore `yaml:"memory"`
	// Redis keeps it in Redis or Valkey; nil for memory.
	Redis *RedisStore `yaml:"redis"`
}

// read reads "memory", or a mapping.
func (st *Store) read(d *decoder, path string, n ast.Node) {
	name, ok := n.(*ast.StringNode)
	switch {
	case !ok:
		d.object(path, n, reflect.ValueOf(st).Elem())
	case name.Value == "redis" || strings.HasPrefix(name.Value, "redis://"):
		d.report(path, quote(name.Value)+" is no way to say where the server is", "write store: {redis: {addresses: [127.0.0.1:6379]}}")
	case name.Value != "memory":
		d.report(path, quote(name.Value)+" is unknown", didYouMean(name.Value, accepted(reflect.TypeFor[Store]())))
	}
}

// MemoryStore are the settings of the memory store.
type MemoryStore struct {
	// MaxSize bounds the memory of all state. Zero is the store's own default.
	MaxSize Size `yaml:"max_size"`
	// WhenFull is what new keys get when no more fit: "share", a budget in common,
	// or "deny". Default: share.
	WhenFull string `yaml:"when_full" oneof:"share deny"`
}

// RedisStore are the settings of a store in Redis or Valkey, which any number of
// processes share. See docs/redis.md.
type RedisStore struct {
	// Addresses are host:port of the server, or of some nodes of a cluster. Required,
	// but for a Socket or a Sentinel.
	Addresses []string `yaml:"addresses"`
	// Socket is the path of the server's Unix socket, in place of an address.
	Socket string `yaml:"socket"`
	// Cluster says that the server is a node of a cluster.
	Cluster bool `yaml:"cluster"`
	// Sentinel says whom to ask for the address of the server; nil for nobody.
	Sentinel *Sentinel `yaml:"sentinel"`
	// TLS is for servers and sentinels that speak it: true, or a mapping.
	TLS RedisTLS `yaml:"tls"`
	// User is the user of the server's ACL. Default: its default user.
	User string `yaml:"user"`
	// PasswordFile is a file that holds the password; white space around it is ignored.
	PasswordFile string `yaml:"password_file"`
	// PasswordEnv is the environment variable that holds it. Give one of both, or none.
	PasswordEnv string `yaml:"password_env"`
	// Database is the number of the database. Default: 0.
	Database int `yaml:"database"`
	// Prefix begins every key. Servers that share limits have the same. Default: sluice.
	Prefix string `yaml:"prefix"`
	// HashKeys stores keys hashed under a secret; nil stores them as they are.
	HashKeys *HashKeys `yaml:"hash_keys"`
	// Tenant is the number, from 1, of the key's part that chooses the slot in a
	// cluster; every rule's key must have that many. Default: 0, the whole key.
	Tenant int `yaml:"tenant"`
	// Deadline is how long a call may take before on_store_error answers, 1ms to 1m.
	// Default: 50ms.
	Deadline time.Duration `yaml:"deadline"`
	// InFlight is how many calls may be under way; beyond, on_store_error answers at
	// once. Default: 1024.
	InFlight int `yaml:"in_flight"`
	// Local is for rules with on_store_error: local.
	Local LocalStore `yaml:"local"`
}

// Sentinel says whom to ask for the address of the server.
type Sentinel struct {
	// Master is the name under which the sentinels know the server. Required.
	Master string `yaml:"master"`
	// Addresses are host:port of the sentinels. Required.
	Addresses []string `yaml:"addresses"`
	// User, PasswordFile and PasswordEnv are for the sentinels themselves. Default: none.
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"`
	PasswordEnv  string `yaml:"password_env"`
}

// RedisTLS says whom to trust, and who we are. TLS is 1.2 at least.
type RedisTLS struct {
	// Enabled says that the server speaks TLS; any of the others does, too.
	Enabled bool
	// CA is a file of certificates, in PEM, to trust in place of the system's.
	CA string `yaml:"ca"`
	// Cert and Key are files, in PEM, of our own certificate. Give both or none.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ServerName is the name to expect in the server's certificate. Default: the host
	// of the address.
	ServerName string `yaml:"server_name"`
}

// HashKeys says where the secret is under which keys are hashed. It has 16 bytes or
// more, and is the same for all servers that share limits.
type HashKeys struct {
	// SecretFile is a file that holds the secret; white space around it is ignored.
	SecretFile string `yaml:"secret_file"`
	// SecretEnv is the environment variable that holds it. Give one of both.
	SecretEnv string `yaml:"secret_env"`
}

// LocalStore are the settings of what stands in for the store while it is down.
type LocalStore struct {
	// Share is how much of each limit this server may admit by itself, such as 1/4 for one
	// of four. Required where a rule has on_store_error: local.
	Share Share `yaml:"share"`
	// MaxSize bounds its memory. Zero is the memory store's own default.
	MaxSize Size `yaml:"max_size"`
}

const (
	defaultRedisPrefix   = "sluice"
	defaultRedisDeadline = 50 * time.Millisecond
	defaultRedisInFlight = 1024
)

// read fills in the defaults first.
func (r *RedisStore) read(d *decoder, path string, n ast.Node) {
	*r = RedisStore{Prefix: defaultRedisPrefix, Deadline: defaultRedisDeadline, InFlight: defaultRedisInFlight}
	d.object(path, n, reflect.ValueOf(r).Elem())
}

// unknown has a remedy for what a file must not hold, and for what other programs
// call the same.
func (*RedisStore) unknown(p pair) string {
	switch strings.ToLower(p.name) {
	case "url", "uri", "dsn":
		return "give addresses: [HOST:PORT], and user and password_file beside it"
	case "share", "max_size":
		return "it belongs to local: {" + p.name + ": …}"
	case "timeout", "read_timeout":
		return `did you mean "deadline"?`
	}
	return passwordRemedy(p)
}

func (*Sentinel) unknown(p pair) string { return passwordRemedy(p) }

func (*HashKeys) unknown(p pair) string {
	if strings.EqualFold(p.name, "secret") {
		return "a secret has no place in this file; give secret_file or secret_env"
	}
	return ""
}

func (*LocalStore) unknown(p pair) string {
	if p.name == "instances" || p.name == "processes" {
		return "give share: 1/4 for one of four"
	}
	return ""
}

func passwordRemedy(p pair) string {
	if nearest(p.name, []string{"password", "pass", "auth"}) == "" {
		return ""
	}
	return "a password has no place in this file; give password_file or password_env"
}

// read reads true, false or a mapping.
func (t *RedisTLS) read(d *decoder, path string, n ast.Node) {
	if b, ok := n.(*ast.BoolNode); ok {
		t.Enabled = b.Value
		return
	}
	if !isMapping(n) {
		d.wrong(path, n, "true, or a mapping of "+oneOf(accepted(reflect.TypeFor[RedisTLS]())))
		return
	}
	t.Enabled = true
	d.object(path, n, reflect.ValueOf(t).Elem())
}
