package overdoors

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/load"
	"github.com/sluicehq/sluice/bench/process"
)

const authDoor = "auth"

// socketServer is a sluice at a Unix socket, for the gateway whose example has one.
const socketServer = "auth at a socket"

// The rows of forward-auth.
const (
	bareGet    = "bare handler, GET"
	bareSame   = "bare handler, the request of nginx"
	authName   = "/auth"
	nginxAlone = "nginx without a limit"
	nginxLimit = "nginx, limit_req"
	nginxBare  = "nginx, auth_request, bare handler"
	nginxAuth  = "nginx, auth_request, sluice"
	nginxLua   = "nginx, Lua, sluice"
	caddyAlone = "Caddy without a limit"
	caddyAuth  = "Caddy, forward-auth, sluice"

	traefikAlone = "Traefik without a limit"
	traefikLimit = "Traefik, rateLimit"
	traefikAuth  = "Traefik, forwardAuth, sluice"
)

// Calls of clients, and the request that nginx makes of one.
const (
	plainCall = "GET /api/x HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
	nginxCall = "GET /auth?deny_status=403 HTTP/1.1\r\nX-Original-Method: GET\r\nX-Original-URI: /api/x\r\nX-Original-Host: www.example.com\r\n" +
		"X-Real-IP: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.1\r\nHost: sluice\r\n\r\n"
)

// overHTTP returns a client that makes one call over HTTP/1.1. Each caller has a connection.
func overHTTP(call string) func(address string) (load.Client, error) {
	return func(address string) (load.Client, error) { return load.NewHTTP(address, []byte(call), callers), nil }
}

// authRows are the rows of forward-auth.
func authRows(traefik bool) []row {
	plain, same := overHTTP(plainCall), overHTTP(nginxCall)
	all := []row{
		{door: authDoor, name: bareGet, server: bareServer, units: 1, floor: true, connect: plain},
		{door: authDoor, name: bareSame, server: bareServer, units: 1, floor: true, connect: same},
		{door: authDoor, name: authName, server: authServer, units: 1, connect: same},
		{door: authDoor, name: nginxAlone, server: nginxAlone, units: 1, floor: true, connect: plain},
		{door: authDoor, name: nginxLimit, server: nginxLimit, without: nginxAlone, units: 1, connect: plain},
		{door: authDoor, name: nginxBare, server: nginxBare, behind: []string{bareAuth}, without: nginxAlone, units: 1, floor: true, connect: plain},
		{door: authDoor, name: nginxAuth, server: nginxAuth, behind: []string{socketServer}, without: nginxAlone, units: 1, connect: plain},
		{door: authDoor, name: nginxLua, server: nginxLua, behind: []string{authServer}, without: nginxAlone, units: 1, connect: plain},
		{door: authDoor, name: caddyAlone, server: caddyAlone, units: 1, floor: true, connect: plain},
		{door: authDoor, name: caddyAuth, server: caddyAuth, behind: []string{authServer}, without: caddyAlone, units: 1, connect: plain},
	}
	if traefik {
		all = append(
			all,
			row{door: authDoor, name: traefikAlone, server: traefikAlone, units: 1, floor: true, connect: plain},
			row{door: authDoor, name: traefikLimit, server: traefikLimit, without: traefikAlone, units: 1, connect: plain},
			row{door: authDoor, name: traefikAuth, server: traefikAuth, behind: []string{authServer}, without: traefikAlone, units: 1, connect: plain},
		)
	}
	return all
}

// judgeAuth compares the results with the bars of forward-auth.
func judgeAuth(r figures.Results) []figures.Bar {
	return []figures.Bar{atMost(r, authName, 1.3, bareSame), atMost(r, nginxAuth, 1.2, nginxBare)}
}

// nginx returns the command of an nginx before the bare handler, with a file of examples/gateways.
func (b *bench) nginx(name, address string) ([]string, error) {
	program, err := process.Locate("nginx", "nginx libnginx-mod-http-lua")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.work, "nginx"+port)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	behind := authServer
	if name == nginxBare {
		behind = bareAuth
	}
	_, auth, err := net.SplitHostPort(b.servers[behind].Address)
	if err != nil {
		return nil, err
	}
	const forever = "keepalive_requests 1000000000;"
	own := "http {\n access_log off; " + forever + " limit_req_zone $binary_remote_addr zone=one:10m rate=1000000r/s;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	const socket = "unix:/run/sluice/auth.sock"
	behindIt := "127.0.0.1:" + auth
	if name == nginxAuth {
		if behindIt, err = b.atSocket(); err != nil {
			return nil, err
		}
	}
	pairs := []string{"8000", port, "8082", auth, socket, behindIt, "127.0.0.1:3000", b.servers[bareServer].Address, "http {\n", own, "keepalive 64;", "keepalive 64; " + forever}
	file := "nginx.conf"
	switch name {
	case nginxAlone:
		pairs = append(pairs, "auth_request /.sluice;", "")
	case nginxLimit:
		pairs = append(pairs, "auth_request /.sluice;", "limit_req zone=one burst=1000000 nodelay;")
	case nginxLua:
		file = "nginx-lua.conf"
		text, err := example("gateways/sluice.lua")
		if err != nil {
			return nil, err
		}
		if _, err := put(dir, "sluice.lua", text); err != nil {
			return nil, err
		}
	}
	text, err := example("gateways/"+file, pairs...)
	if err != nil {
		return nil, err
	}
	path, err := put(dir, file, text)
	return []string{
		program, "-p", dir, "-c", path, "-e", "stderr", "-g", "daemon off; master_process off; error_log stderr crit; pid " + filepath.Join(dir, "pid") + ";",
	}, err
}

// atSocket starts a sluice at a Unix socket, and returns the address of the socket. The admin listener, which opens later, shows
// that it listens.
func (b *bench) atSocket() (string, error) {
	socket := "unix:" + filepath.Join(b.work, "auth.sock")
	return socket, b.launch(socketServer, func(address string) ([]string, error) {
		text := strings.NewReplacer(
			`admin: "off", LISTENER: 'ADDRESS'`, "admin: '"+address+"', auth: '"+socket+"'",
			"trusted_proxies: 127.0.0.1", "trusted_proxies: unix", "STORE", "", "RULE", requests,
		).Replace(config)
		path, err := put(b.work, "socket.yaml", text)
		return []string{filepath.Join(b.work, "sluice"), "serve", path}, err
	})
}

// caddy returns the command of a Caddy before the bare handler, with the file of examples/gateways.
func (b *bench) caddy(name, address string) ([]string, error) {
	program, err := process.Locate("caddy", "caddy")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	text, err := example("gateways/Caddyfile", "8000", port, "127.0.0.1:8082", b.servers[authServer].Address, "127.0.0.1:3000", b.servers[bareServer].Address)
	if err != nil {
		return nil, err
	}
	if name == caddyAlone {
		const route = "\troute {\n"
		before, _, _ := strings.Cut(text, route)
		_, service, found := strings.Cut(text, "\t\tvars sluice decided\n\t\treverse_proxy ")
		if !found {
			return nil, fmt.Errorf("the Caddyfile of the examples has changed: %s", name)
		}
		text = before + route + "\t\treverse_proxy " + service
	}
	path, err := put(b.work, "Caddyfile"+port, text)
	return []string{"env", "HOME=" + b.work, "XDG_DATA_HOME=" + b.work, "XDG_CONFIG_HOME=" + b.work, program, "run", "--adapter", "caddyfile", "--config", path}, err
}

// traefik returns the command of a Traefik before the bare handler, with the files of examples/gateways.
func (b *bench) traefik(name, address string) ([]string, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	decisions, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	pairs := []string{"127.0.0.1:8083", decisions, "127.0.0.1:8082", b.servers[authServer].Address, "127.0.0.1:3000", b.servers[bareServer].Address}
	switch name {
	case traefikAlone:
		pairs = append(pairs, "[described, sluice", "[described")
	case traefikLimit:
		pairs = append(pairs, "[described, sluice", "[described, own", "    described:\n", "    own: {rateLimit: {average: 1000000, burst: 1000000}}\n    described:\n")
	}
	dynamic, err := example("gateways/traefik.yml", pairs...)
	if err != nil {
		return nil, err
	}
	path, err := put(b.work, "traefik"+port+".yml", dynamic)
	if err != nil {
		return nil, err
	}
	static, err := example("gateways/traefik-static.yml", "8000", port, "127.0.0.1:8083", decisions, "traefik.yml", path)
	if err != nil {
		return nil, err
	}
	if path, err = put(b.work, "traefik-static"+port+".yml", static+"global: {checkNewVersion: false}\n"); err != nil {
		return nil, err
	}
	program, err := filepath.Abs(b.traefikProgram)
	return []string{program, "--configFile=" + path}, err
}
