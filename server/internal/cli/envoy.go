package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluicehq/sluice/internal/file/envoy"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/config"
)

// envoyFolder returns the folder of the configuration of Envoy's rate limit service: from the flag or, without a file,
// from the variables of its deployments. It is empty if there is none.
func (s *settings) envoyFolder() string {
	if s.envoy == "" && isFolder(s.config) {
		return s.config
	}
	root := os.Getenv("RUNTIME_ROOT")
	if s.envoy != "" || s.config != "" || root == "" {
		return s.envoy
	}
	return filepath.Join(root, os.Getenv("RUNTIME_SUBDIRECTORY"), cmp.Or(os.Getenv("RUNTIME_APPDIRECTORY"), "config"))
}

// isFolder reports whether a name is of a folder.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// loadEnvoy reads a folder as Envoy's rate limit service does, with the variables of its deployments.
func (s *settings) loadEnvoy(folder string) (*config.File, error) {
	if s.config != "" && s.config != folder {
		return nil, fmt.Errorf("--envoy-config is given, and the file %s too; give one of them, or write both in one file: sluice import envoy %s", s.config, folder)
	}
	var e envoyEnvironment
	f, err := e.load(folder)
	s.warnings = e.warnings
	if err != nil {
		return nil, err
	}
	if s.apiTokenFile != "" || os.Getenv(apiTokenVariable) != "" {
		f.API.Open = false // callers need the token then
		return f, nil
	}
	for _, l := range f.Listen.All() {
		if a := s.listen[l.Name]; a != nil && *a != "" && *a != "off" && l.Audience == access.Programs && l.Off() {
			return nil, fmt.Errorf("--listen-%s is given, and the configuration of Envoy's rate limit service answers everybody who reaches it; "+
				"give a token with %s, or write a file of Sluice: sluice import envoy %s", l.Name, apiTokenVariable, folder)
		}
	}
	return f, nil
}

// load reads a folder, and applies the variables. The server takes the ports of Envoy's rate limit service, and answers
// everybody who reaches them, as that server does.
func (e *envoyEnvironment) load(folder string) (*config.File, error) {
	o := envoy.Options{
		MergeDomains: e.flag("MERGE_DOMAIN_CONFIG"), Quota: e.flag("QUOTA_MODE"), Except: e.output,
		AllOrNone: e.flag("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"),
	}
	f, err := config.LoadEnvoy(folder, o)
	if err != nil {
		return nil, err
	}
	f.Listen.Proxy.Address, f.Listen.API.Address = "", ""
	f.Listen.JSON.Address = e.address("HOST", "PORT", 8080)
	f.Listen.GRPC.Address = e.address("GRPC_HOST", "GRPC_PORT", 8081)
	if path := os.Getenv("GRPC_UDS"); path != "" {
		f.Listen.GRPC.Address = "unix:" + path
	}
	f.API.Open = true
	f.Headers = config.HeadersNone
	e.apply(f)
	if err := errors.Join(e.errs...); err != nil {
		return nil, err
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f, nil
}

// envoyEnvironment reads the environment variables of Envoy's rate limit service.
type envoyEnvironment struct {
	warnings []string
	errs     []error
	output   os.FileInfo // the file that import writes, which is not read; nil for none
}

func (e *envoyEnvironment) warn(format string, args ...any) {
	e.warnings = append(e.warnings, fmt.Sprintf(format, args...))
}

func (e *envoyEnvironment) fail(format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf(format, args...))
}

// flag returns a variable that is true or false.
func (e *envoyEnvironment) flag(name string) bool {
	text := os.Getenv(name)
	if text == "" {
		return false
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		e.fail("%s is %q; give true or false", name, text)
	}
	return b
}

// address returns the address of a listener.
func (e *envoyEnvironment) address(host, port string, byDefault int) string {
	text := cmp.Or(os.Getenv(port), strconv.Itoa(byDefault))
	if n, err := strconv.ParseUint(text, 10, 16); err != nil || n == 0 {
		e.fail("%s is %q; give a port from 1 to 65535", port, text)
	}
	return joinHostPort(cmp.Or(os.Getenv(host), "0.0.0.0"), text)
}
