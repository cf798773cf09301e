package redistest

import "strings"

// Option changes how a server is started.
type Option func(*options)

type options struct {
	program  string   // empty: what program returns
	lines    []string // in the configuration file
	acl      []string // in the ACL file; nil: no file
	tls      bool
	cluster  bool
	sentinel bool
	far      bool // in a network namespace of its own
	env      []string
}

// Config adds lines to the server's configuration file, as "maxmemory 10mb". They
// come last, so they override what the harness says.
func Config(lines ...string) Option {
	return func(o *options) { o.lines = append(o.lines, lines...) }
}

// TLS makes the server listen with TLS on Server.TLSAddr as well, with a certificate
// made for it that Server.TLSConfig trusts.
func TLS() Option {
	return func(o *options) { o.tls = true }
}

// ACL gives the server an ACL file with these lines, as "user app on >secret ~app:* +evalsha".
// The harness adds a user of its own, whom Server.Do and replicas use; so the lines may turn
// the default user off.
func ACL(lines ...string) Option {
	return func(o *options) { o.acl = append(o.acl, lines...) }
}

// The user that the harness adds to an ACL file.
const (
	ownUser = "redistest"
	ownPass = "redistest-only"
)

func collect(opts []Option) *options {
	o := new(options)
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// configuration is the text of the file for a server in dir.
func (o *options) configuration(dir string, p ports) string {
	lines := []string{
		"bind 127.0.0.1",
		"port " + p.plain,
		"dir " + dir,
		"daemonize no",
		`logfile ""`,
	}
	if !o.sentinel {
		lines = append(lines,
			`save ""`,
			"appendonly no",
			"repl-diskless-sync yes",
			"repl-diskless-sync-delay 0",
			"unixsocket "+socketIn(dir),
			"unixsocketperm 700",
		)
	}
	if o.tls {
		lines = append(lines,
			"tls-port "+p.tls,
			"tls-cert-file "+certificateIn(dir),
			"tls-key-file "+keyIn(dir),
			"tls-ca-cert-file "+certificateIn(dir),
			"tls-auth-clients no",
		)
	}
	if o.cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-port "+p.bus)
	}
	if o.acl != nil {
		lines = append(lines, "aclfile "+aclIn(dir))
		if !o.sentinel {
			lines = append(lines, "masteruser "+ownUser, "masterauth "+ownPass)
		}
	}
	lines = append(lines, o.lines...)
	return strings.Join(lines, "\n") + "\n"
}

// users is the text of the ACL file.
func (o *options) users() string {
	own := "user " + ownUser + " on >" + ownPass + " ~* &* +@all"
	return strings.Join(append([]string{own}, o.acl...), "\n") + "\n"
}
