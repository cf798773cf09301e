package overdoors

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/cmd/bench/process"
)

const authDoor = "auth"

// The rows of forward-auth. The servers of nginx have the names of their rows.
const (
	bareGet    = "bare handler, GET"
	bareSame   = "bare handler, the request of nginx"
	authName   = "/auth"
	nginxAlone = "nginx without a limit"
	nginxLimit = "nginx, limit_req"
	nginxBare  = "nginx, auth_request, bare handler"
	nginxAuth  = "nginx, auth_request, sluice"
	nginxLua   = "nginx, Lua, sluice"
)

// The names of the other servers.
const (
	bareServer = "bareapi"
	bareAuth   = "bareauth" // a bare handler that lets everything pass
	authServer = "auth"
)

// Calls of clients, and the request that nginx makes of one.
const (
	plainCall = "GET /api/x HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
	nginxCall = "GET /auth?deny_status=403 HTTP/1.1\r\nX-Original-Method: GET\r\nX-Original-URI: /api/x\r\nX-Original-Host: www.example.com\r\n" +
		"X-Real-IP: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.1\r\nHost: sluice\r\n\r\n"
)

// authRows are the rows of forward-auth.
func authRows() []row {
	return []row{
		{authDoor, bareGet, bareServer, nil, 0, overHTTP(plainCall)},
		{authDoor, bareSame, bareServer, nil, 0, overHTTP(nginxCall)},
		{authDoor, authName, authServer, nil, 1, overHTTP(nginxCall)},
		{authDoor, nginxAlone, nginxAlone, nil, 0, overHTTP(plainCall)},
		{authDoor, nginxLimit, nginxLimit, nil, 1, overHTTP(plainCall)},
		{authDoor, nginxBare, nginxBare, []string{bareAuth}, 0, overHTTP(plainCall)},
		{authDoor, nginxAuth, nginxAuth, []string{authServer}, 1, overHTTP(plainCall)},
		{authDoor, nginxLua, nginxLua, []string{authServer}, 1, overHTTP(plainCall)},
	}
}

// judgeAuth compares the results with the bars of forward-auth.
func judgeAuth(r figures.Results) []figures.Bar {
	return []figures.Bar{atMost(r, authName, 1.3, bareGet), atMost(r, nginxAuth, 2.5, nginxLimit)}
}

// authConfig limits what callers request, and never denies.
const authConfig = `version: 1
listen: {proxy: off, api: off, admin: off, auth: '%s'}
trusted_proxies: 127.0.0.1
rules: [{name: api, match: {path: /api/**}, key: client_ip, limit: {algorithm: token_bucket, rate: 1000000/s}}]
`

// startAuth starts the servers of forward-auth.
func (b *bench) startAuth(sluice string) error {
	bare := filepath.Join(b.work, bareServer)
	if err := process.Build(bare, "github.com/sluicehq/sluice/checks/cmd/bareapi"); err != nil {
		return err
	}
	for _, name := range []string{bareServer, bareAuth} {
		if err := b.launch(name, func(address string) (string, []string, error) { return bare, []string{address}, nil }); err != nil {
			return err
		}
	}
	err := b.launch(authServer, func(address string) (string, []string, error) {
		file := filepath.Join(b.work, authServer+".yaml")
		return sluice, []string{"serve", file}, os.WriteFile(file, fmt.Appendf(nil, authConfig, address), 0o600)
	})
	if err != nil {
		return err
	}
	for _, name := range []string{nginxAlone, nginxLimit, nginxBare, nginxAuth, nginxLua} {
		if err := b.launch(name, func(address string) (string, []string, error) { return b.nginx(name, address) }); err != nil {
			return err
		}
	}
	return nil
}

// nginx returns the command of an nginx before the bare handler, with a file of examples/gateways.
func (b *bench) nginx(name, address string) (program string, args []string, err error) {
	if program, err = exec.LookPath("nginx"); err != nil {
		if program = "/usr/sbin/nginx"; !exists(program) {
			return "", nil, errors.New("nginx is missing: install it (Debian: apt-get install nginx libnginx-mod-http-lua)")
		}
	}
	examples, err := examplesFolder()
	if err != nil {
		return "", nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, err
	}
	dir := filepath.Join(b.work, "nginx"+port)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	behind := authServer
	if name == nginxBare {
		behind = bareAuth
	}
	_, auth, err := net.SplitHostPort(b.servers[behind].Address)
	if err != nil {
		return "", nil, err
	}
	const forever = "keepalive_requests 1000000000;"
	own := "http {\n access_log off; " + forever + " limit_req_zone $binary_remote_addr zone=one:10m rate=1000000r/s;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	// put writes a file of the examples for this benchmark.
	put := func(file string, change *strings.Replacer) (string, error) {
		text, err := os.ReadFile(filepath.Join(examples, file))
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, file)
		return path, os.WriteFile(path, []byte(change.Replace(string(text))), 0o600)
	}
	pairs := []string{"8000", port, "8082", auth, "127.0.0.1:3000", b.servers[bareServer].Address, "http {\n", own, "keepalive 64;", "keepalive 64; " + forever}
	file := "nginx.conf"
	switch name {
	case nginxAlone:
		pairs = append(pairs, "auth_request /.sluice;", "")
	case nginxLimit:
		pairs = append(pairs, "auth_request /.sluice;", "limit_req zone=one burst=1000000 nodelay;")
	case nginxLua:
		file = "nginx-lua.conf"
		if _, err := put("sluice.lua", strings.NewReplacer()); err != nil {
			return "", nil, err
		}
	}
	path, err := put(file, strings.NewReplacer(pairs...))
	return program, []string{
		"-p", dir, "-c", path, "-e", "stderr", "-g", "daemon off; master_process off; error_log stderr crit; pid " + filepath.Join(dir, "pid") + ";",
	}, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// examplesFolder returns the folder of the examples, from where the benchmark or its test runs.
func examplesFolder() (string, error) {
	for _, top := range []string{"..", filepath.Join("..", "..", "..", "..")} {
		if dir := filepath.Join(top, "examples", "gateways"); exists(dir) {
			return dir, nil
		}
	}
	return "", errors.New("there is no folder examples/gateways; run the benchmark with go -C checks")
}

// overHTTP returns a load of one call over HTTP/1.1. Each caller has a connection.
func overHTTP(call string) func(address string) (load, error) {
	return func(address string) (load, error) { return &httpLoad{address: address, call: call}, nil }
}

// httpLoad makes one call over several connections.
type httpLoad struct {
	address, call string
	conns         [callers]*httpConn
}

// httpConn is the connection of one caller.
type httpConn struct {
	net.Conn
	in *bufio.Reader
}

func (l *httpLoad) caller(i int) func() error {
	return func() error {
		if l.conns[i] == nil {
			c, err := net.Dial("tcp", l.address) //nolint:noctx // it lasts as long as the load
			if err != nil {
				return err
			}
			l.conns[i] = &httpConn{c, bufio.NewReader(c)}
		}
		return l.conns[i].do(l.call)
	}
}

func (l *httpLoad) close() {
	for _, c := range l.conns {
		if c != nil {
			_ = c.Close() // the load has ended
		}
	}
}

var errNotOK = errors.New("the server did not answer 200")

// do makes one call.
func (c *httpConn) do(call string) error {
	if _, err := io.WriteString(c, call); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%w but %s", errNotOK, res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
