package overdoors

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/sluicehq/sluice/checks/cmd/bench/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// The names of servers. A server of sluice has the name of its store.
const (
	memoryServer = "memory"
	redisServer  = "redis"
	hybridServer = "hybrid"
	echoServer   = "echo"
	peerServer   = "ratelimit"
)

// config limits what callers request, and never denies. The verbs are the address, the store and terms of the rule.
const config = `version: 1
listen: {proxy: "off", api: "off", admin: "off", grpc: '%s'}
%srules:
  - name: per-address
    descriptor: {domain: bench, entries: [remote_address]}
    limit: {algorithm: fixed_window, rate: 4000000000/h}
%s`

// peerConfig is the same limit for envoyproxy/ratelimit.
const peerConfig = `domain: bench
descriptors:
  - key: remote_address
    rate_limit: {unit: hour, requests_per_unit: 4000000000}
`

// start builds and starts all servers.
func (b *bench) start() (err error) {
	if b.redis, err = redistest.New(); err != nil {
		return err
	}
	sluice, echo := filepath.Join(b.work, "sluice"), filepath.Join(b.work, "baregrpc")
	for program, path := range map[string]string{
		sluice: "github.com/sluicehq/sluice/server/cmd/sluice", echo: "github.com/sluicehq/sluice/checks/cmd/baregrpc",
	} {
		if err := process.Build(program, path); err != nil {
			return err
		}
	}
	store := fmt.Sprintf("store: {redis: {addresses: ['%s'], deadline: 1s}}\n", b.redis.Addr())
	for name, terms := range map[string][2]string{memoryServer: {}, redisServer: {store}, hybridServer: {store, "    hybrid: true\n"}} {
		err := b.launch(name, func(address string) (string, []string, error) {
			file := filepath.Join(b.work, name+".yaml")
			return sluice, []string{"serve", file}, os.WriteFile(file, fmt.Appendf(nil, config, address, terms[0], terms[1]), 0o600)
		})
		if err != nil {
			return err
		}
	}
	// The floor answers what sluice answers.
	if err := saveAnswers(b.servers[memoryServer].Address, b.work); err != nil {
		return err
	}
	if err := b.launch(echoServer, func(address string) (string, []string, error) { return echo, []string{address, b.work}, nil }); err != nil {
		return err
	}
	if err := b.startAuth(sluice); err != nil {
		return err
	}
	if err := b.startRESP(sluice); err != nil {
		return err
	}
	if b.o.Ratelimit == "" {
		return nil
	}
	return b.launch(peerServer, b.peer)
}

// launch starts a server at a free address. The function command returns its program and arguments.
func (b *bench) launch(name string, command func(address string) (program string, args []string, err error)) error {
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	program, args, err := command(address)
	if err != nil {
		return err
	}
	b.servers[name], err = process.Start(address, program, args...)
	return err
}

// peer returns the command of envoyproxy/ratelimit, which reads its settings from variables.
func (b *bench) peer(address string) (program string, args []string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, err
	}
	folder := filepath.Join(b.work, "runtime", "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(peerConfig), 0o600); err != nil {
		return "", nil, err
	}
	ports := [2]string{}
	for i := range ports {
		free, err := process.FreeAddress()
		if err != nil {
			return "", nil, err
		}
		_, ports[i], _ = net.SplitHostPort(free)
	}
	path, err := filepath.Abs(b.o.Ratelimit)
	if err != nil {
		return "", nil, err
	}
	return "env", []string{
		"GRPC_HOST=" + host, "GRPC_PORT=" + port, "HOST=" + host, "PORT=" + ports[0], "DEBUG_HOST=" + host, "DEBUG_PORT=" + ports[1],
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + b.redis.Addr(), "USE_STATSD=false", "LOG_LEVEL=error",
		"RUNTIME_ROOT=" + filepath.Join(b.work, "runtime"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", path,
	}, nil
}

// stop ends all servers.
func (b *bench) stop() error {
	for _, s := range b.servers {
		if s != nil {
			s.Stop()
		}
	}
	if b.redis == nil {
		return nil
	}
	return b.redis.Close()
}
