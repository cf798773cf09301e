// Command bareproxy is a proxy that limits nothing, for the benchmark of the proxy: floor.Proxy, the least that a proxy
// costs over net/http, or httputil.ReverseProxy as it is.
package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"

	"github.com/sluicehq/sluice/bench/floor"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: bareproxy floor|reverse HOST:PORT UPSTREAM-HOST:PORT")
		os.Exit(2)
	}
	var h http.Handler = &floor.Proxy{Host: os.Args[3]}
	if os.Args[1] == "reverse" {
		p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Args[3]})
		// The default keeps two connections, and would make one for nearly each request.
		p.Transport = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
		h = p
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[2], h)) //nolint:gosec // a floor has no deadlines
	os.Exit(1)
}
