package policyfile

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Listen holds the addresses at which the server listens. The defaults are on loopback.
type Listen struct {
	// Proxy takes the traffic and passes it on to the upstream. Default: "127.0.0.1:8080".
	Proxy Listener `yaml:"proxy"`
	// API decides requests of other programs. At an address other than loopback it needs a token of its own, client
	// certificates, or open: true in the section api. Default: "127.0.0.1:8081".
	API Listener `yaml:"api"`
	// Admin serves health, metrics and the calls that change state. At an address other than loopback
	// it needs an admin token or client certificates. Default: "127.0.0.1:9090".
	Admin Listener `yaml:"admin"`
}

// Listener is an address, host:port, or off. To serve TLS, write it as a mapping.
type Listener struct {
	// Address is the host and port, such as 127.0.0.1:8080, or off.
	Address string `yaml:"address"`
	// TLS is the server's certificate. Default: none, for plain HTTP.
	TLS *TLS `yaml:"tls"`
}

func (*Listener) short(list bool) string { return single("address", list) }

// Off reports whether the listener is turned off.
func (l Listener) Off() bool { return l.Address == "" }

// TLS is a listener's certificate.
type TLS struct {
	// Cert is the file of the certificate chain, in PEM. Required.
	Cert string `yaml:"cert"`
	// Key is the file of the private key, in PEM. Required.
	Key string `yaml:"key"`
	// MinVersion is the lowest version of TLS that clients may use. Default: 1.2.
	MinVersion string `yaml:"min_version" oneof:"1.2 1.3"`
	// ClientCA is a file of authorities, in PEM. Clients must then have a certificate of one of them. Default: none.
	ClientCA string `yaml:"client_ca"`
}

// RequiresClient reports whether clients need a certificate. It is false for a nil TLS.
func (t *TLS) RequiresClient() bool { return t != nil && t.ClientCA != "" }

// HTTP bounds what one client can make the server hold.
type HTTP struct {
	// MaxHeaderSize bounds the headers of a request. It is at least 1KiB. Default: 64KiB.
	MaxHeaderSize Size `yaml:"max_header_size"`
	// MaxBodySize bounds the body of a request to the API. Default: 1MiB.
	MaxBodySize Size `yaml:"max_body_size"`
	// MaxProxyBodySize bounds the body of a request through the proxy, which streams bodies.
	// 0 means unbounded. Default: 0.
	MaxProxyBodySize Size `yaml:"max_proxy_body_size"`
	// HeaderTimeout is how long a client may take to send its headers. Default: 10s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// ReadTimeout is how long a client may take to send a request to the API or the admin
	// listener. Default: 30s.
	ReadTimeout time.Duration `yaml:"read_timeout"`
	// IdleTimeout is how long a connection may be idle between requests. Default: 2m.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MinBodyRate is how many bytes a second a client must send of a request's body, or receive of a response, on
	// average over the time in which the proxy waits for it. 0B means no least rate. Default: 1KiB.
	MinBodyRate Size `yaml:"min_body_rate"`
	// BodyGrace is how long the proxy waits for a client in addition to the time that min_body_rate gives it.
	// A pause always ends after a minute. Default: 20s.
	BodyGrace time.Duration `yaml:"body_grace"`
	// BodyTimeout is how long the proxy waits for a client to send the body of a request, in all. 0 means
	// unbounded. Default: 1h.
	BodyTimeout time.Duration `yaml:"body_timeout"`
	// MaxConnections bounds the connections of each listener. Further ones wait. 0 means unbounded. Default: 10000.
	MaxConnections int `yaml:"max_connections" unit:"connections"`
	// MaxConnectionsPerClient bounds the connections of each client address to each listener; further ones are
	// closed. An IPv6 client is its /64 network. It does not bound trusted_proxies. 0 means
	// unbounded. Default: 1000.
	MaxConnectionsPerClient int `yaml:"max_connections_per_client" unit:"connections"`
}

// Admin protects the calls that change state. Give token_file or token, not both.
type Admin struct {
	// Token is the bearer token of these calls. Prefer token_file: a file is easier to protect. Default: none.
	Token string `yaml:"token"`
	// TokenFile is a file that holds the token. White space around the token is ignored. Default: none.
	TokenFile string `yaml:"token_file"`
}

// API protects the decision API. Without any of these settings it answers programs of this machine only. Give
// token_file or token, not both.
type API struct {
	// Token is the bearer token that callers send; the admin token is accepted too. Prefer token_file: a file is
	// easier to protect. Default: none.
	Token string `yaml:"token"`
	// TokenFile is a file that holds the token. White space around the token is ignored. Default: none.
	TokenFile string `yaml:"token_file"`
	// Open answers everybody who reaches the listener, whatever the Host header names. Anybody who reaches it can
	// then use up the budget of any key. Default: false.
	Open bool `yaml:"open"`
}

// Log configures the server's log.
type Log struct {
	// Level is the least severe level that is logged. Default: info.
	Level string `yaml:"level" oneof:"debug info warn error"`
	// Format is the form of each line. Default: text.
	Format string `yaml:"format" oneof:"text json"`
	// Sample is how many denials are logged per second, for all rules together. The others
	// are only counted. 0 logs none. Default: 10.
	Sample int `yaml:"sample" unit:"denials per second"`
	// KeySecretFile is a file that holds the secret of the fingerprints of keys, in the log and in
	// sluice keys. Servers with the same secret have the same fingerprints. White space around it is ignored. Give
	// key_secret_file, key_secret_env or neither. Default: none, for a random secret that ends with the process.
	KeySecretFile string `yaml:"key_secret_file"`
	// KeySecretEnv is the environment variable that holds the secret. Default: none.
	KeySecretEnv string `yaml:"key_secret_env"`
}

// check checks all settings except the rules. It treats a File that a program made like one that was
// read.
func (f *File) check(s *source) {
	if f.source != nil && !s.has("version") {
		s.follow("version", "is missing", `begin the file with "version: 1"`)
	}
	if f.Version != 1 {
		s.follow("version", fmt.Sprintf("is %d, and this program reads 1", f.Version), "write version: 1")
	}
	if f.IPv6Prefix < 1 || f.IPv6Prefix > 128 {
		s.follow("ipv6_prefix", fmt.Sprintf("is %d", f.IPv6Prefix), "give 1 to 128; 64 is what one customer usually holds")
	}
	if f.TrustMarks && len(f.TrustedProxies) == 0 {
		s.follow("trust_marks", "believes the marks of trusted proxies, and there are none", "list the proxies that mark under trusted_proxies, or leave it out")
	}
	f.checkStore(s)
	f.checkListen(s)
	f.checkTokens(s)
	checkSecret(s, "log", "key_secret", f.Log.KeySecretFile, f.Log.KeySecretEnv)
	f.Upstream.check(s)
	f.checkScaleOut(s)
	if f.HTTP.MaxHeaderSize < 1<<10 {
		s.follow("http.max_header_size", fmt.Sprintf("is %v, too little for a request", f.HTTP.MaxHeaderSize), "give 1KiB or more")
	}
	if f.HTTP.MaxBodySize < 1 {
		s.follow("http.max_body_size", "is 0, which no request to the API fits", "give a size such as 1MiB")
	}
	if s.has("http.body_grace") && f.HTTP.MinBodyRate == 0 {
		s.follow("http.body_grace", "has no effect, because min_body_rate is 0", "remove it, or give a rate such as 1KiB")
	}
	if f.HTTP.MinBodyRate > 0 && f.HTTP.BodyGrace == 0 {
		s.follow("http.body_grace", "is 0, which ends a body whose first byte is not there at once", "give a time such as 20s")
	}
	if n, all := f.HTTP.MaxConnectionsPerClient, f.HTTP.MaxConnections; s.has("http.max_connections_per_client") && all > 0 && n > all {
		s.follow("http.max_connections_per_client", fmt.Sprintf("is %d, more than max_connections, %d", n, all), "give less, so that one client cannot take all")
	}
	if f.HTTP.HeaderTimeout == 0 {
		s.follow("http.header_timeout", "is 0, which lets slow clients hold connections for ever", "give a time such as 10s")
	}
}

func (f *File) checkListen(s *source) {
	at := map[string]string{}
	for _, l := range []struct {
		path string
		*Listener
	}{{"listen.proxy", &f.Listen.Proxy}, {"listen.api", &f.Listen.API}, {"listen.admin", &f.Listen.Admin}} {
		if l.Address == "off" {
			l.Address = ""
		}
		if l.TLS != nil {
			l.TLS.check(s, l.path+".tls")
		}
		if l.Off() {
			continue
		}
		path := l.path
		if s.has(path + ".address") {
			path += ".address"
		}
		host, port, problem := splitAddress(l.Address)
		if problem != "" {
			s.follow(path, quote(l.Address)+" "+problem, `write host:port as in 127.0.0.1:8080, or "off"`)
			continue
		}
		if other := at[l.Address]; other != "" && port != 0 {
			s.follow(path, fmt.Sprintf("%s is the address of %s too", quote(l.Address), other), "give each listener its own")
		}
		at[l.Address] = l.path
		if loopback(host) || l.TLS.RequiresClient() {
			continue
		}
		problem = fmt.Sprintf("%s is reachable by others, and there is no token", quote(l.Address))
		switch {
		case l.path == "listen.admin" && f.Admin == (Admin{}) && !s.at["admin"]:
			s.follow(path, problem, "listen on 127.0.0.1, or give admin.token_file, or client_ca under tls")
		case l.path == "listen.api" && f.API == (API{}) && !s.at["api"]:
			s.follow(path, problem, "listen on 127.0.0.1, or give api.token_file, client_ca under tls, or api.open: true to answer everybody")
		}
	}
}

// splitAddress reads host:port.
func splitAddress(address string) (host string, port int, problem string) {
	if strings.Contains(address, "://") {
		return "", 0, "is a URL, and host:port is wanted"
	}
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		if !strings.Contains(address, ":") {
			return "", 0, "has no port"
		}
		return "", 0, "is not an address"
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, "has no port from 0 to 65535"
	}
	if strings.ContainsAny(host, " \t/*") {
		return "", 0, "has no valid host"
	}
	return host, int(n), ""
}

// loopback reports whether only this machine reaches a host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// checkTokens checks the tokens of the admin listener and of the API.
func (f *File) checkTokens(s *source) {
	checkToken(s, "admin", f.Admin.Token, f.Admin.TokenFile)
	checkToken(s, "api", f.API.Token, f.API.TokenFile)
	if f.API.Open && (f.API.Token != "" || f.API.TokenFile != "") {
		s.follow("api.open", "is true, and there is a token, which callers need then", "remove one of them")
	}
	if f.API.Open && f.Listen.API.TLS.RequiresClient() {
		s.follow("api.open", "is true, and callers need a certificate by listen.api.tls.client_ca", "remove one of them")
	}
	if f.API != (API{}) && f.Listen.API.Off() && !s.at["listen"] {
		s.followKey("api", "is given, and listen.api is off", "remove it, or turn the listener on")
	}
}

func checkToken(s *source, section, token, file string) {
	if token != "" && file != "" {
		s.follow(section+".token_file", "is given, and "+section+".token is too", "give one of them")
	}
	if s.has(section+".token") && token == "" {
		s.follow(section+".token", "is empty", "give a token, or remove the line")
	}
	if s.has(section+".token_file") && file == "" {
		s.follow(section+".token_file", "is empty", "give the path of a file, or remove the line")
	}
	if token != strings.TrimSpace(token) {
		s.follow(section+".token", "has white space around it", "remove it")
	}
}

func (t *TLS) check(s *source, path string) {
	if t.Cert == "" {
		s.follow(path+".cert", "is missing", "give the file of the certificate, in PEM")
	}
	if t.Key == "" {
		s.follow(path+".key", "is missing", "give the file of the private key, in PEM")
	}
	if s.has(path+".client_ca") && t.ClientCA == "" {
		s.follow(path+".client_ca", "is empty", "give the file of the authorities, in PEM, or remove the line")
	}
}

// ScaleOut names programs that Sluice informs of the pressure on rules. Autoscalers read the pressure from the
// admin listener without any setting: see docs/scale-out.md.
type ScaleOut struct {
	// Webhook is a program that receives a message when pressure becomes high or ends. Default: none.
	Webhook *Webhook `yaml:"webhook"`
}

// Webhook is a program that receives a message when the pressure on a rule becomes high, and when
// it ends. The pressure is the demand divided by the limit.
type Webhook struct {
	// URL is where messages are sent, http or https. Required.
	URL string `yaml:"url"`
	// SecretFile is a file that holds the secret that signs messages. White space around it is
	// ignored. Give secret_file or secret_env.
	SecretFile string `yaml:"secret_file"`
	// SecretEnv is the environment variable that holds the secret.
	SecretEnv string `yaml:"secret_env"`
	// Rules are the names of the rules whose pressure is watched. Default: all.
	Rules []string `yaml:"rules"`
	// Above is the pressure from which it is high. Default: 0.8.
	Above Ratio `yaml:"above"`
	// Below is the pressure below which it is no longer high. Default: 0.5.
	Below Ratio `yaml:"below"`
	// For is how long the pressure must last before a message is sent. Default: 10s.
	For time.Duration `yaml:"for"`
	// Every is how often the message is repeated while the pressure stays high. 0 means never. Default: 0s.
	Every time.Duration `yaml:"every"`
}

// read fills in the defaults first.
func (w *Webhook) read(d *decoder, path string, n ast.Node) {
	*w = Webhook{Above: 0.8, Below: 0.5, For: 10 * time.Second}
	d.object(path, n, reflect.ValueOf(w).Elem())
}

// unknown has a remedy for secrets, which a file must not contain.
func (*Webhook) unknown(p pair) string {
	if nearest(p.name, []string{"secret", "token", "key"}) != "" {
		return "a secret does not belong in this file; give secret_file or secret_env"
	}
	return ""
}

// checkScaleOut checks the webhook. Errors do not show its URL, which may be secret.
func (f *File) checkScaleOut(s *source) {
	w := f.ScaleOut.Webhook
	if w == nil {
		return
	}
	in := func(name string) string { return "scale_out.webhook." + name }
	target, err := url.Parse(w.URL)
	const example = "write it as in https://ops.example.com/hooks/scale"
	switch {
	case w.URL == "":
		s.follow(in("url"), "is missing", example)
	case err != nil:
		s.follow(in("url"), "is not a URL", example)
	case target.Scheme != "http" && target.Scheme != "https":
		s.follow(in("url"), "is neither an http nor an https URL", example)
	case target.Hostname() == "":
		s.follow(in("url"), "has no host", example)
	case target.User != nil:
		s.follow(in("url"), "has a user in it", "remove what is before the @; messages are signed")
	case target.Fragment != "":
		s.follow(in("url"), "has a fragment, which is not sent", "remove what follows the #")
	}
	checkSecret(s, "scale_out.webhook", "secret", w.SecretFile, w.SecretEnv)
	if w.SecretFile == "" && w.SecretEnv == "" {
		s.follow(in("secret_file"), "is missing", "give secret_file or secret_env; openssl rand -hex 32 makes a secret")
	}
	switch {
	case w.Above == 0:
		s.follow(in("above"), "is 0, which any pressure reaches", "give one such as 0.8, for eight tenths of what a rule gives")
	case w.Below == 0:
		s.follow(in("below"), "is 0, and no pressure is less", "give one such as 0.5")
	case w.Below > w.Above:
		s.follow(in("below"), fmt.Sprintf("is %v, more than above, %v", w.Below, w.Above), "give less, so that a pressure between the two stays what it was")
	}
	if w.Rules != nil && len(w.Rules) == 0 {
		s.follow(in("rules"), "is empty", "give the names of rules, or remove the line for all")
	}
	names := make([]string, len(f.Rules))
	for i := range f.Rules {
		names[i] = f.Rules[i].Name
	}
	for i, name := range w.Rules {
		at := fmt.Sprintf("%s[%d]", in("rules"), i)
		switch {
		case !slices.Contains(names, name):
			s.follow(at, quote(name)+" is not a rule", didYouMean(name, names))
		case slices.Contains(w.Rules[:i], name):
			s.follow(at, quote(name)+" is there twice", "remove one of them")
		}
	}
}
