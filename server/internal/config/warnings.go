package config

import (
	"fmt"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/server/internal/store/remote"
)

// Warnings returns the settings of a valid file that probably do not do what its author wants. The server uses
// such a file all the same. Each entry has its position.
func (f *File) Warnings() reader.Errors {
	s := f.Blank()
	if f.Upstream.URL == "" && !f.Listen.Proxy.Off() {
		s.Follow("upstream", "is missing, so a built-in service answers each request of the proxy with the text of the request",
			"give the URL of a service, upstream: echo to keep the built-in one, or listen: {proxy: off}")
	}
	if r := f.Store.Redis; r != nil && r.Local != (remote.Fallback{}) && !f.usesLocal() {
		s.FollowKey("store.redis"+".local", "is given, and no rule has on_store_error: local", "give on_store_error: local to some rules or to the file, or remove it")
	}
	if f.Store.Redis == nil && s.Has("on_store_error") {
		s.FollowKey("on_store_error", "has no effect with the memory store, which does not fail", "remove it, or give store: {redis: {…}}")
	}
	d := rules.Deployment{Memory: f.Store.Redis == nil, MethodOverride: f.Upstream.MethodOverride, Proxies: len(f.TrustedProxies) > 0}
	f.Warn(s, d)
	f.warnListener(s)
	f.warnGateways(s)
	f.warnSocket(s)
	f.warnRedisClients(s)
	return append(s.Mistakes(), f.Noted(d)...)
}

// warnListener warns of rules for descriptors that no gateway can send.
func (f *File) warnListener(s *reader.Source) {
	given, at := len(f.Domains) > 0, "domains"
	for i := range f.Rules {
		if !given && f.Rules[i].Descriptor != nil {
			given, at = true, fmt.Sprintf("rules[%d].descriptor", i)
		}
	}
	if given && f.Listen.GRPC.Off() && f.Listen.JSON.Off() {
		s.FollowKey(at, "is given, and no listener answers calls with descriptors", "give listen: {grpc: 127.0.0.1:8082}, or remove the rule")
	}
}
