package policyfile

import "time"

// Upstream is the service behind the proxy: its URL alone, or a mapping.
type Upstream struct {
	// URL is http or https, with a host and maybe a path that is put before that of the request.
	URL string `yaml:"url"`
	// ConnectTimeout is how long a connection may take to open. Default: 5s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// ResponseTimeout is how long the headers of the response may take. Default: 60s;
	// 0 waits for as long as the client does.
	ResponseTimeout time.Duration `yaml:"response_timeout"`
	// IdleTimeout is how long an idle connection is kept. Default: 90s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxConnections bounds the connections to the upstream; requests wait for one.
	// Default: 0, unbounded.
	MaxConnections int `yaml:"max_connections"`
	// PreserveHost passes the client's Host header on. Default: true.
	PreserveHost bool `yaml:"preserve_host"`
	// TLS is for https.
	TLS UpstreamTLS `yaml:"tls"`
}

func (*Upstream) short(list bool) string { return single("url", list) }

// UpstreamTLS says whom to trust, and who we are.
type UpstreamTLS struct {
	// CA is a file of certificates, in PEM, to trust in place of the system's.
	CA string `yaml:"ca"`
	// Cert and Key are files, in PEM, of our own certificate. Give both or none.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ServerName is the name to expect in the upstream's certificate. Default: the host of URL.
	ServerName string `yaml:"server_name"`
	// Insecure trusts any certificate. For tests.
	Insecure bool `yaml:"insecure_skip_verify"`
}
