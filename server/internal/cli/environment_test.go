package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/config"
)

func TestVariablesThatAreNoSettings(t *testing.T) {
	for _, entry := range os.Environ() { // such as SLUICE_SOAK
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, variablePrefix) {
			t.Setenv(name, "")
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	named, err := config.Parse("x.yaml", []byte("version: 1\nlog: {key_secret_env: SLUICE_LOG_LEVELS}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"SLUICE_CONFIG":               "",
		"SLUICE_ADMIN_TOKEN":          "",
		"SLUICE_LISTEN_API":           "",
		"SLUICE_SERVER":               "",
		"SLUICE_PORT":                 "",
		"SLUICE_PORT_8080_TCP_ADDR":   "",
		"SLUICE_API_SERVICE_HOST":     "",
		"SLUICE_API_SERVICE_PORT_WEB": "",
		"SLUICE_LOG_LEVELS":           "", // the file names it
		"SLUICE_LISTEN_PROXI":         "did you mean SLUICE_LISTEN_PROXY?",
		"SLUICE_CONFG":                "did you mean SLUICE_CONFIG?",
		"SLUICE_CONFIG_FILE":          "did you mean SLUICE_CONFIG?",
		"SLUICE_ADMIN_TOKE":           "did you mean SLUICE_ADMIN_TOKEN?",
		"SLUICE_UPSTREAM_URL":         "did you mean SLUICE_UPSTREAM?",
		"SLUICE_loglevel":             "did you mean SLUICE_LOG_LEVEL?",
		"SLUICE_REDIS_PASSWORD":       "unknown",
		"SLUICE_FROBNICATE":           "unknown",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "a")
			unknown, err := checkEnvironment(named)
			switch {
			case want == "unknown":
				if err != nil || !slices.Equal(unknown, []string{name}) {
					t.Errorf("the variable should be unknown: %q, %v", unknown, err)
				}
			case want == "":
				if err != nil || len(unknown) > 0 {
					t.Errorf("the variable should be fine: %q, %v", unknown, err)
				}
			case err == nil || !strings.Contains(err.Error(), want):
				t.Errorf("%v does not contain %q", err, want)
			}
		})
	}
}
