package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/server/internal/access"
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
	f.checkPlans(s)
	f.checkTokens(s)
	f.AccessLog.Check(s)
	f.Tracing.Check(s)
	f.Log.Check(s)
	f.Upstream.Check(s)
	f.checkScaleOut(s)
	f.HTTP.Check(s)
	f.checkListeners(s)
	f.File.Check(s)
}

// checkPlans reports a header or a claim that would never name a plan, when the listeners are known.
func (f *File) checkPlans(s *reader.Source) {
	sent := func(from string) bool { return strings.HasPrefix(from, "header:") || strings.HasPrefix(from, "claim:") }
	if i := slices.IndexFunc(f.PlanFrom, sent); i >= 0 && len(f.TrustedProxies) == 0 && !f.Listen.Proxy.Off() {
		s.Follow(fmt.Sprintf("plan_from[%d]", i), reader.Quote(f.PlanFrom[i])+" counts only in requests from trusted proxies, and there are none",
			"list the gateways that name plans under trusted_proxies, or turn listen.proxy off")
	}
}

// checkListeners reports settings of listeners that are off.
func (f *File) checkListeners(s *reader.Source) {
	for _, l := range f.Listen.All() {
		if l.Off() {
			s.Idle(l.Path()+".proxy_protocol", l.ProxyProtocol, "is given, and the listener is off", "remove it, or give an address")
			s.Idle(l.Path()+".tls", l.TLS != nil, "is given, and the listener is off", "remove it, or give an address")
			s.Idle(l.Path()+".reuse_port", l.ReusePort, "is given, and the listener is off", "remove it, or give an address")
		}
		if path, _ := l.Socket(); path == "" {
			s.Idle(l.Path()+".mode", l.Mode != "", "is given, and the address is not the path of a Unix socket", "remove it, or give an address such as unix:/run/sluice/auth.sock")
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
		s.Idle("admin", f.Admin != (access.Admin{}), "is given, and listen.admin and listen.api are off", "remove it, or turn one of them on")
	}
}

// checkTokens checks the tokens of the admin listener and of the API.
func (f *File) checkTokens(s *reader.Source) {
	f.Admin.Check(s)
	f.API.Check(s)
	answers := false // whether a listener is on for which the section api holds
	opens, certified := false, ""
	for _, l := range f.Listen.All() {
		if l.Audience != access.Programs {
			continue
		}
		answers = answers || !l.Off()
		if l.TLS.RequiresClient() {
			certified = l.Path()
		} else {
			opens = opens || !l.Off()
		}
	}
	if f.API.Open && certified != "" && !opens {
		s.Follow("api.open", "is true, and callers need a certificate by "+certified+".tls.client_ca", "remove one of them")
	}
	if f.API.Admits() && !answers && !s.Failed("listen") {
		s.FollowKey("api", "is given, and listen.api is off", "remove it, or turn the listener on")
	}
}
