package app

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/sluicehq/sluice/server/internal/config"
)

//go:embed quickstart.yaml
var quickStart []byte

// QuickStart returns the built-in configuration, as text and parsed.
func QuickStart() (text []byte, f *config.File, err error) {
	f, err = config.Parse("quickstart.yaml", quickStart)
	if err != nil {
		return nil, nil, fmt.Errorf("app: the built-in configuration: %w", err)
	}
	return quickStart, f, nil
}

// announceQuickStart prints what to run, and what to expect. A test checks its numbers against
// quickstart.yaml.
func (a *App) announceQuickStart(w io.Writer) {
	service := builtIn
	if u := &a.o.File.Upstream; !u.BuiltIn() {
		service = u.URL
	}
	fmt.Fprintf(w, "Sluice is running on its quick-start policy: each client address may send\n"+
		"5 requests at once, and one more every 2 seconds.\n\n")
	for _, s := range a.servers.All() {
		purpose := map[string]string{
			"proxy": "in front of " + service,
			"api":   "decisions for other programs, see /openapi.yaml",
			"admin": "/livez, /readyz, /metrics",
		}[s.Name]
		if remark := s.Remark(); remark != "" {
			purpose += "; " + remark
		}
		fmt.Fprintf(w, "  %-6s %-24s %s\n", s.Name, s.URL(), purpose)
	}
	proxy := a.URL("proxy")
	if path, ok := strings.CutPrefix(proxy, "unix:"); ok {
		proxy = "--unix-socket " + path + " http://localhost"
	}
	if proxy != "" {
		fmt.Fprintf(w, "\nTry it from another terminal:\n\n"+
			"  for i in 1 2 3 4 5 6 7; do curl -s -o /dev/null -w '%%{http_code}\\n' %s/; done\n\n"+
			"The first 5 requests are answered 200, the others 429. These headers show clients\n"+
			"what is left, and when to come back:\n\n"+
			"  curl -si %s/\n\n", proxy, proxy)
	}
	if page := a.page(); page != "" {
		fmt.Fprintf(w, "What is limited now, in a browser or in a terminal:\n\n  %s\n  sluice top\n\n", page)
	}
	fmt.Fprintf(w, "To protect a service of your own: sluice serve --upstream http://HOST:PORT,\n"+
		"or with rules of your own: sluice serve FILE. Ctrl-C ends it.\n")
}
