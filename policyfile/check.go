package policyfile

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// check checks all settings but the rules. It makes no difference between what a
// file says and what a program has set.
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
		s.follow("trust_marks", "believes the marks of trusted proxies, and there are none", "name under trusted_proxies the hops that mark, or leave it out")
	}
	f.checkStore(s)
	f.checkListen(s)
	f.checkAdmin(s)
	f.Upstream.check(s)
	f.checkScaleOut(s)
	if f.HTTP.MaxHeaderSize < 1<<10 {
		s.follow("http.max_header_size", fmt.Sprintf("is %v, too little for a request", f.HTTP.MaxHeaderSize), "give 1KiB or more")
	}
	if f.HTTP.MaxBodySize < 1 {
		s.follow("http.max_body_size", "is 0, which no request to the API fits", "give a size such as 1MiB")
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
		if l.path == "listen.admin" && !loopback(host) && f.Admin.Token == "" && f.Admin.TokenFile == "" && !s.at["admin"] {
			s.follow(path, fmt.Sprintf("%s is reachable by others, and there is no token", quote(l.Address)), "listen on 127.0.0.1, or give admin.token_file")
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
		return "", 0, "is no address"
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, "has no port from 0 to 65535"
	}
	if strings.ContainsAny(host, " \t/*") {
		return "", 0, "has no host that could be one"
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

func (f *File) checkAdmin(s *source) {
	if f.Admin.Token != "" && f.Admin.TokenFile != "" {
		s.follow("admin.token_file", "is given, and admin.token is too", "give one of them")
	}
	if s.has("admin.token") && f.Admin.Token == "" {
		s.follow("admin.token", "is empty", "give a token, or remove the line")
	}
	if f.Admin.Token != strings.TrimSpace(f.Admin.Token) {
		s.follow("admin.token", "has white space around it", "remove it")
	}
}

func (t *TLS) check(s *source, path string) {
	if t.Cert == "" {
		s.follow(path+".cert", "is missing", "give the file of the certificate, in PEM")
	}
	if t.Key == "" {
		s.follow(path+".key", "is missing", "give the file of the private key, in PEM")
	}
}

func (u *Upstream) check(s *source) {
	path := "upstream"
	if s.has("upstream.url") {
		path = "upstream.url"
	}
	t := &u.TLS
	if (t.Cert == "") != (t.Key == "") {
		s.follow("upstream.tls", "has a certificate or a key alone", "give cert and key, or none of them")
	}
	if u.URL == "" {
		if s.has("upstream") {
			s.follow(path, "has no URL", "write it as in http://127.0.0.1:3000")
		}
		return
	}
	if problem, suggestion := checkURL(u.URL); problem != "" {
		s.follow(path, problem, suggestion)
	} else if strings.HasPrefix(strings.ToLower(u.URL), "http://") && *t != (UpstreamTLS{}) {
		s.follow("upstream.tls", "is given, and the URL is http", "write https, or remove tls")
	}
}

// checkURL reports why a text is no URL of a service.
func checkURL(text string) (problem, suggestion string) {
	shown := quote(text)
	if strings.Contains(text, "@") { // there could be a password in front of it
		shown = "the URL"
	}
	const example = "write it as in http://127.0.0.1:3000"
	target, err := url.Parse(text)
	switch {
	case err == nil && target.Host != "" && target.User != nil:
		return "the URL has a user in it", "remove what is before the @"
	case !strings.Contains(text, "://"):
		return shown + " has no scheme", fmt.Sprintf("write %s", quote("http://"+text))
	case err != nil:
		return shown + " is no URL", example
	case target.Scheme != "http" && target.Scheme != "https":
		return fmt.Sprintf("%s has the scheme %s", shown, quote(target.Scheme)), "give http or https"
	case target.Hostname() == "":
		return shown + " has no host", example
	case target.RawQuery != "" || target.Fragment != "" || target.ForceQuery:
		return shown + " has a query or fragment", "give the path at most"
	}
	return "", ""
}
