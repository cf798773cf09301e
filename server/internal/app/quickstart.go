package app

import (
	_ "embed"
	"fmt"
	"io"
	"net"

	"github.com/sluicehq/sluice/policyfile"
)

//go:embed quickstart.yaml
var quickStart []byte

// QuickStart returns the built-in configuration, as text and parsed.
func QuickStart() (text []byte, f *policyfile.File, err error) {
	f, err = policyfile.Parse("quickstart.yaml", quickStart)
	if err != nil {
		return nil, nil, fmt.Errorf("app: the built-in configuration: %w", err)
	}
	return quickStart, f, nil
}

// announceQuickStart prints what to run, and what to expect. A test checks its numbers against
// quickstart.yaml.
func (a *App) announceQuickStart(w io.Writer) {
	proxy, api, admin := a.URL(Proxy), a.URL(API), a.URL(Admin)
	service := "a built-in service that echoes each request"
	if u := a.file.Upstream.URL; u != "" {
		service = u
	}
	fmt.Fprintf(w, "Sluice is running on its quick-start policy: each client address may send\n"+
		"5 requests at once, and one more every 2 seconds.\n\n")
	if proxy != "" {
		fmt.Fprintf(w, "  proxy  %-24s in front of %s\n", proxy, service)
	}
	if api != "" {
		fmt.Fprintf(w, "  api    %-24s decisions for other programs, see /openapi.yaml\n", api)
	}
	if admin != "" {
		fmt.Fprintf(w, "  admin  %-24s /livez, /readyz, /metrics\n", admin)
	}
	if proxy != "" {
		fmt.Fprintf(w, "\nTry it from another terminal:\n\n"+
			"  for i in 1 2 3 4 5 6 7; do curl -s -o /dev/null -w '%%{http_code}\\n' %s/; done\n\n"+
			"The first 5 requests are answered 200, the others 429. These headers show clients\n"+
			"what is left, and when to come back:\n\n"+
			"  curl -si %s/\n\n", proxy, proxy)
	}
	fmt.Fprintf(w, "To protect a service of your own: sluice serve --upstream http://HOST:PORT,\n"+
		"or with rules of your own: sluice serve FILE. Ctrl-C ends it.\n")
}

// urlOf returns the URL of a listener for programs on this machine.
func urlOf(scheme string, addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("%s://localhost:%d", scheme, tcp.Port)
	}
	return scheme + "://" + addr.String()
}
