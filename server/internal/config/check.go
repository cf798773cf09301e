package config

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// Check implements [rules.Root]. It treats a File that a program made like one that was
// read.
func (f *File) Check(s *reader.Source) {
	rules.CheckVersion(s, f.Version)
	if f.TrustMarks && len(f.TrustedProxies) == 0 {
		s.Follow("trust_marks", "believes the marks of trusted proxies, and there are none", "list the proxies that mark under trusted_proxies, or leave it out")
	}
	if f.NearLimit <= 0 || f.NearLimit > 1 {
		s.Follow("near_limit", fmt.Sprintf("is %v", f.NearLimit), "give more than 0, up to 100%")
	}
	f.checkHeaders(s)
	f.checkStore(s)
	f.checkListen(s)
	f.checkTokens(s)
	f.AccessLog.check(s)
	f.Tracing.check(s)
	secret.CheckSource(s, "log", "key_secret", f.Log.KeySecretFile, f.Log.KeySecretEnv)
	f.Upstream.check(s)
	f.checkScaleOut(s)
	if f.HTTP.MaxHeaderSize < 1<<10 {
		s.Follow("http.max_header_size", fmt.Sprintf("is %v, too little for a request", f.HTTP.MaxHeaderSize), "give 1KiB or more")
	}
	if f.HTTP.MaxBodySize < 1 {
		s.Follow("http.max_body_size", "is 0, which no request to the API fits", "give a size such as 1MiB")
	}
	if s.Has("http.body_grace") && f.HTTP.MinBodyRate == 0 {
		s.Follow("http.body_grace", "has no effect, because min_body_rate is 0", "remove it, or give a rate such as 1KiB")
	}
	if f.HTTP.MinBodyRate > 0 && f.HTTP.BodyGrace == 0 {
		s.Follow("http.body_grace", "is 0, which ends a body whose first byte is not there at once", "give a time such as 20s")
	}
	if n, all := f.HTTP.MaxConnectionsPerClient, f.HTTP.MaxConnections; s.Has("http.max_connections_per_client") && all > 0 && n > all {
		s.Follow("http.max_connections_per_client", fmt.Sprintf("is %d, more than max_connections, %d", n, all), "give less, so that one client cannot take all")
	}
	if f.HTTP.HeaderTimeout == 0 {
		s.Follow("http.header_timeout", "is 0, which lets slow clients hold connections for ever", "give a time such as 10s")
	}
	f.checkListeners(s)
	f.File.Check(s)
}

// checkListeners reports settings of listeners that are off.
func (f *File) checkListeners(s *reader.Source) {
	for _, l := range f.Listen.all() {
		if l.Off() {
			s.Idle(l.path+".proxy_protocol", l.ProxyProtocol, "is given, and the listener is off", "remove it, or give an address")
			s.Idle(l.path+".tls", l.TLS != nil, "is given, and the listener is off", "remove it, or give an address")
		}
		if path, _ := l.Socket(); path == "" {
			s.Idle(l.path+".mode", l.Mode != "", "is given, and the address is not the path of a Unix socket", "remove it, or give an address such as unix:/run/sluice/auth.sock")
		}
	}
	if f.Listen.Proxy.Off() {
		const problem, remedy = "is given, and listen.proxy is off", "remove it, or turn the proxy on"
		if f.Listen.Auth.Off() || !s.Has("upstream.method_override") {
			s.Idle("upstream", false, problem, remedy)
		}
		s.Idle("http.max_proxy_body_size", f.HTTP.MaxProxyBodySize != 0, problem, remedy)
	}
	if f.Listen.API.Off() && f.Listen.Admin.Off() {
		s.Idle("admin", f.Admin != (Admin{}), "is given, and listen.admin and listen.api are off", "remove it, or turn one of them on")
	}
}

// checkTokens checks the tokens of the admin listener and of the API.
func (f *File) checkTokens(s *reader.Source) {
	checkToken(s, "admin", f.Admin.Token, f.Admin.TokenFile)
	checkToken(s, "api", f.API.Token, f.API.TokenFile)
	if f.API.Open && (f.API.Token != "" || f.API.TokenFile != "") {
		s.Follow("api.open", "is true, and there is a token, which callers need then", "remove one of them")
	}
	answers := false // whether a listener is on for which the section api holds
	opens, certified := false, ""
	for _, l := range f.Listen.all() {
		if l.access != forCallers {
			continue
		}
		answers = answers || !l.Off()
		if l.TLS.RequiresClient() {
			certified = l.path
		} else {
			opens = opens || !l.Off()
		}
	}
	if f.API.Open && certified != "" && !opens {
		s.Follow("api.open", "is true, and callers need a certificate by "+certified+".tls.client_ca", "remove one of them")
	}
	if f.API != (API{}) && !answers && !s.Failed("listen") {
		s.FollowKey("api", "is given, and listen.api is off", "remove it, or turn the listener on")
	}
}

func checkToken(s *reader.Source, section, token, file string) {
	if token != "" && file != "" {
		s.Follow(section+".token_file", "is given, and "+section+".token is too", "give one of them")
	}
	if s.Has(section+".token") && token == "" {
		s.Follow(section+".token", "is empty", "give a token, or remove the line")
	}
	if s.Has(section+".token_file") && file == "" {
		s.Follow(section+".token_file", "is empty", "give the path of a file, or remove the line")
	}
	if token != strings.TrimSpace(token) {
		s.Follow(section+".token", "has white space around it", "remove it")
	}
}
