package tracing

import (
	"fmt"
	"net/url"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Settings sends a span of each request through the proxy to a collector of OpenTelemetry, with the decision as
// attributes. Traces of trusted_proxies are continued; other clients begin a new trace.
type Settings struct {
	// Endpoint is the URL of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318. Its headers and
	// certificates come from the OTEL_EXPORTER_OTLP_ variables. Default: none.
	Endpoint string `yaml:"endpoint"`
	// Sample is the part of the traces that begin here and are sent. Default: 1%.
	Sample reader.Ratio `yaml:"sample"`
}

// Default returns the defaults of the settings.
func Default() Settings { return Settings{Sample: 0.01} }

// Check checks the settings, which are the section tracing.
func (t *Settings) Check(s *reader.Source) {
	if t.Sample < 0 || t.Sample > 1 {
		s.Follow("tracing.sample", fmt.Sprintf("is %v", t.Sample), "give 0 to 100%")
	}
	if t.Endpoint == "" {
		s.Idle("tracing.sample", false, "is given, and tracing.endpoint is not", "give the URL of a collector, or remove it")
		return
	}
	if target, err := url.Parse(t.Endpoint); err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		s.Follow("tracing.endpoint", "is not the URL of a collector", "write it as http://127.0.0.1:4318")
	} else if target.User != nil {
		s.Follow("tracing.endpoint", "has a user in it", "set OTEL_EXPORTER_OTLP_HEADERS in the environment")
	}
}
