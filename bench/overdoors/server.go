package overdoors

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicehq/sluice/bench/load"
	"github.com/sluicehq/sluice/bench/process"
)

// The names of servers. Gateways have the names of their rows.
const (
	// Servers of sluice.
	memoryServer = "memory"
	redisServer  = "redis"
	hybridServer = "hybrid"
	authzServer  = "authz"
	authServer   = "auth"
	spoeServer   = "spoe"
	respServer   = "resp"
	// Floors, peers and what is behind the others.
	echoServer  = "echo"
	peerServer  = "ratelimit"
	storeServer = "redis-server"
	bareServer  = "bareapi"
	bareAuth    = "bareauth" // a bare handler that lets everything pass
)

// config limits what callers request, and never denies.
const config = `version: 1
listen: {proxy: "off", api: "off", admin: "off", LISTENER: 'ADDRESS'}
trusted_proxies: 127.0.0.1
STORErules: [RULE]
`

// The rules: one about requests, and one about descriptors.
const (
	requests    = `{name: api, match: {path: /api/**}, key: client_ip, limit: {algorithm: token_bucket, rate: 1000000/s}}`
	descriptors = `{name: per-address, descriptor: {domain: bench, entries: [remote_address]}, limit: {algorithm: fixed_window, rate: 4000000000/h}}`
)

// sluices are the servers of sluice, each with one listener and one rule.
var sluices = []struct {
	name, listener, rule string
	store                bool // in Redis
}{
	{memoryServer, "grpc", descriptors, false},
	{redisServer, "grpc", descriptors, true},
	{hybridServer, "grpc", strings.TrimSuffix(descriptors, "}") + ", hybrid: true}", true},
	{authzServer, "grpc", requests, false},
	{authServer, "auth", requests, false},
	{spoeServer, "spoe", requests, false},
	{respServer, "resp", requests, false},
}

// peerConfig is the limit of descriptors for envoyproxy/ratelimit.
const peerConfig = `domain: bench
descriptors:
  - key: remote_address
    rate_limit: {unit: hour, requests_per_unit: 4000000000}
`

// start builds and starts all servers.
func (b *bench) start() error {
	const here = "github.com/sluicehq/sluice/"
	sluice, echo, bare := filepath.Join(b.work, "sluice"), filepath.Join(b.work, "baregrpc"), filepath.Join(b.work, "bareapi")
	for program, path := range map[string]string{sluice: "server/cmd/sluice", echo: "bench/baregrpc", bare: "bench/bareapi"} {
		if err := process.Build(program, here+path); err != nil {
			return err
		}
	}
	err := b.launch(storeServer, func(address string) ([]string, error) {
		_, port, err := net.SplitHostPort(address)
		return []string{"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.work, "--logfile", os.DevNull}, err
	})
	if err != nil {
		return err
	}
	for _, s := range sluices {
		store := ""
		if s.store {
			store = fmt.Sprintf("store: {redis: {addresses: ['%s'], deadline: 1s}}\n", b.servers[storeServer].Address)
		}
		err := b.launch(s.name, func(address string) ([]string, error) {
			text := strings.NewReplacer("LISTENER", s.listener, "ADDRESS", address, "STORE", store, "RULE", s.rule).Replace(config)
			file := filepath.Join(b.work, s.name+".yaml")
			return []string{sluice, "serve", file}, os.WriteFile(file, []byte(text), 0o600)
		})
		if err != nil {
			return err
		}
	}
	// The floor answers what sluice answers.
	if err := saveAnswers(b.servers[memoryServer].Address, b.servers[authzServer].Address, b.work); err != nil {
		return err
	}
	commands := map[string]func(address string) ([]string, error){
		echoServer: func(address string) ([]string, error) { return []string{echo, address, b.work}, nil },
		bareServer: func(address string) ([]string, error) { return []string{bare, address}, nil },
		bareAuth:   func(address string) ([]string, error) { return []string{bare, address}, nil },
	}
	if b.ratelimitProgram != "" {
		commands[peerServer] = b.peer
	}
	for name, command := range commands {
		if err := b.launch(name, command); err != nil {
			return err
		}
	}
	for name, command := range gateways {
		if b.traefikProgram == "" && strings.HasPrefix(name, "Traefik") {
			continue
		}
		if err := b.launch(name, func(address string) ([]string, error) { return command(b, name, address) }); err != nil {
			return err
		}
		// Some listen before they have read all of their files.
		if err := process.Until(func() error {
			c := load.NewHTTP(b.servers[name].Address, []byte(plainCall), 1)
			defer c.Close()
			return c.Caller(0)()
		}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// gateways are the commands of gateways by the names of their rows. What they pass requests to listens already.
var gateways = map[string]func(b *bench, name, address string) ([]string, error){
	nginxAlone: (*bench).nginx, nginxLimit: (*bench).nginx, nginxBare: (*bench).nginx, nginxAuth: (*bench).nginx, nginxLua: (*bench).nginx,
	caddyAlone: (*bench).caddy, caddyAuth: (*bench).caddy,
	traefikAlone: (*bench).traefik, traefikLimit: (*bench).traefik, traefikAuth: (*bench).traefik,
	haproxyAlone: (*bench).haproxy, haproxyLimit: (*bench).haproxy, haproxySPOE: (*bench).haproxy,
}

// launch starts a server at a free address. The function command returns its program and arguments.
func (b *bench) launch(name string, command func(address string) ([]string, error)) error {
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	words, err := command(address)
	if err != nil {
		return err
	}
	server, err := process.Start(address, words[0], words[1:]...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.servers[name] = server
	return nil
}

// peer returns the command of envoyproxy/ratelimit, which reads its settings from variables.
func (b *bench) peer(address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(b.work, "runtime", "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(peerConfig), 0o600); err != nil {
		return nil, err
	}
	ports := [2]string{}
	for i := range ports {
		free, err := process.FreeAddress()
		if err != nil {
			return nil, err
		}
		_, ports[i], _ = net.SplitHostPort(free)
	}
	path, err := filepath.Abs(b.ratelimitProgram)
	return []string{
		"env", "GRPC_HOST=" + host, "GRPC_PORT=" + port, "HOST=" + host, "PORT=" + ports[0], "DEBUG_HOST=" + host, "DEBUG_PORT=" + ports[1],
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + b.servers[storeServer].Address, "USE_STATSD=false", "LOG_LEVEL=error",
		"RUNTIME_ROOT=" + filepath.Join(b.work, "runtime"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", path,
	}, err
}

// stop ends all servers.
func (b *bench) stop() {
	for _, s := range b.servers {
		s.Stop()
	}
}

// example returns the text of a file of the examples, changed for this benchmark, which runs in the folder bench, as its test
// runs in its own.
func example(path string, pairs ...string) (string, error) {
	for _, top := range []string{"..", filepath.Join("..", "..")} {
		text, err := os.ReadFile(filepath.Join(top, "examples", filepath.FromSlash(path)))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return strings.NewReplacer(pairs...).Replace(string(text)), err
		}
	}
	return "", fmt.Errorf("there is no file examples/%s; run the benchmark with go -C bench", path)
}

// put writes a file into a folder, and returns its path.
func put(dir, name, text string) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}
