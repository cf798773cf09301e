package overproxy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicehq/sluice/bench/process"
)

// The names of subjects.
const (
	sluiceName  = "sluice serve, one rule"
	reverseName = "httputil.ReverseProxy"
	floorName   = "floor: net/http, pooled connections"
	nginxName   = "nginx, limit_req"
	haproxyName = "HAProxy, stick table"
)

// subject is a proxy.
type subject struct {
	name string
	// program is a Go package, or the name of an installed program.
	program string
	config  string // with LISTEN, UPSTREAM, FOLDER and USER
	args    []string
}

// All limits are beyond what this machine can send.
func subjects() []subject {
	const bare = "github.com/sluicehq/sluice/bench/bareproxy"
	return []subject{
		{sluiceName, "github.com/sluicehq/sluice/server/cmd/sluice", `version: 1
listen: {proxy: 'LISTEN', api: "off", admin: "off"}
upstream: 'http://UPSTREAM'
http: {max_connections: 30000, max_connections_per_client: 30000}
rules: [{name: clients, key: client_ip, limit: {algorithm: token_bucket, rate: 1000000/s}}]
`, []string{"serve", "CONFIG"}},
		{reverseName, bare, "", []string{"reverse", "LISTEN", "UPSTREAM"}},
		{floorName, bare, "", []string{"floor", "LISTEN", "UPSTREAM"}},
		{nginxName, "nginx", `USER
worker_processes 2;
pid FOLDER/nginx.pid;
error_log /dev/null crit;
worker_rlimit_nofile 20000;
events { worker_connections 16000; }
http {
	access_log off;
	client_body_temp_path FOLDER/body;
	proxy_temp_path FOLDER/proxy;
	fastcgi_temp_path FOLDER/fastcgi;
	uwsgi_temp_path FOLDER/uwsgi;
	scgi_temp_path FOLDER/scgi;
	keepalive_requests 1000000000;
	limit_req_zone $binary_remote_addr zone=clients:1m rate=1000000r/s;
	upstream service { server UPSTREAM; keepalive 64; keepalive_requests 1000000000; }
	server {
		listen LISTEN;
		location / {
			limit_req zone=clients burst=100000 nodelay;
			proxy_pass http://service;
			proxy_http_version 1.1;
			proxy_request_buffering off;
			proxy_set_header Connection "";
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
}
`, []string{"-e", "FOLDER/nginx.log", "-c", "CONFIG", "-g", "daemon off;"}},
		{haproxyName, "haproxy", `global
	nbthread 2
	maxconn 4000
defaults
	mode http
	timeout client 60s
	timeout server 60s
	timeout connect 5s
	option forwardfor
frontend clients
	bind LISTEN
	stick-table type ip size 100k expire 60s store http_req_rate(10s)
	http-request track-sc0 src
	http-request deny deny_status 429 if { sc_http_req_rate(0) gt 2000000000 }
	default_backend service
backend service
	server service UPSTREAM
`, []string{"-db", "-q", "-f", "CONFIG"}},
	}
}

// startAll starts all proxies that are installed. The servers that run must be stopped even after an error.
func (b *bench) startAll(work, upstream string) (map[string]*process.Server, error) {
	servers := map[string]*process.Server{}
	built := map[string]string{}
	for i, s := range subjects() {
		program := built[s.program]
		var err error
		switch {
		case program != "":
		case strings.Contains(s.program, "/"):
			program = filepath.Join(work, filepath.Base(s.program))
			if err := process.Build(program, s.program); err != nil {
				return servers, err
			}
			built[s.program] = program
		default:
			if program, err = process.Locate(s.program, s.program); err != nil {
				b.missing = append(b.missing, s.program)
				continue
			}
		}
		address, err := process.FreeAddress()
		if err != nil {
			return servers, err
		}
		user := "" // of the workers of nginx, which must reach the folder
		if os.Getuid() == 0 {
			user = "user root;"
		}
		file := filepath.Join(work, fmt.Sprint("config-", i))
		words := strings.NewReplacer("LISTEN", address, "UPSTREAM", upstream, "FOLDER", work, "CONFIG", file, "USER", user)
		if err := os.WriteFile(file, []byte(words.Replace(s.config)), 0o600); err != nil {
			return servers, err
		}
		args := make([]string, len(s.args))
		for i, a := range s.args {
			args[i] = words.Replace(a)
		}
		server, err := process.Start(address, program, args...)
		if err != nil {
			return servers, err
		}
		servers[s.name] = server
	}
	return servers, nil
}
