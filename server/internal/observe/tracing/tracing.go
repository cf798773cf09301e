// Package tracing makes spans of requests, with the decision as attributes, and sends them by OTLP over HTTP.
package tracing

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/sluicehq/sluice/policy"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options configure a Tracer.
type Options struct {
	// Endpoint is the URL of the collector, such as http://127.0.0.1:4318. Without a path, the path is /v1/traces.
	// Required.
	Endpoint string
	// Sample is the part of the traces begun by this server that it sends, from 0 to 1.
	Sample float64
	// Version is the version of the program.
	Version string
	// Trusted reports whether the peer of a request may continue its trace. Required.
	Trusted func(*http.Request) bool
	// ClientIP returns the address of a request's client; invalid if it is unknown. Required.
	ClientIP func(*http.Request) netip.Addr
	// Failed is called when spans cannot be sent. Required.
	Failed func(error)
}

// Tracer makes spans. A collector that does not answer delays no request: spans wait in a bounded queue, and
// are dropped when it is full.
type Tracer struct {
	o        Options
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
}

// New returns a Tracer. It does not wait for the collector.
func New(ctx context.Context, o Options) (*Tracer, error) {
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint.String()))
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(o.Failed))
	spans := sdktrace.NewSpanLimits()
	spans.AttributeValueLengthLimit = mostText
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithRawSpanLimits(spans),
		sdktrace.WithBatcher(exporter, sdktrace.WithExportTimeout(10*time.Second)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Sample))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "sluice"), attribute.String("service.version", o.Version))),
	)
	return &Tracer{o: o, provider: provider, tracer: provider.Tracer("github.com/sluicehq/sluice")}, nil
}

// mostText bounds a text that a client chose: many spans wait in the queue.
const mostText = 1024

// nameOf returns the name of a span: the method, or HTTP for a method that a client made up.
func nameOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	default:
		return "HTTP"
	}
}

// Close sends the spans that are left, until the context ends.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Wrap makes a span of each request. The service gets the context of the span in its W3C headers. A trace of a trusted
// peer is continued. Other clients cannot choose the trace, or whether it is sent: the span only links to their trace.
func (t *Tracer) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
		before := t.context.Extract(ctx, propagation.HeaderCarrier(r.Header))
		if theirs := trace.SpanContextFromContext(before); t.o.Trusted(r) {
			ctx = before
		} else if theirs.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: theirs}))
		}
		ctx, span := t.tracer.Start(ctx, nameOf(r.Method), options...)
		defer span.End()
		if span.IsRecording() {
			span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("url.path", r.URL.EscapedPath()),
				attribute.String("server.address", r.Host))
			if addr := t.o.ClientIP(r); addr.IsValid() {
				span.SetAttributes(attribute.String("client.address", addr.String()))
			}
		}
		r.Header.Del("Tracestate")
		t.context.Inject(ctx, propagation.HeaderCarrier(r.Header))
		if !span.IsRecording() {
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		answer := &statusWriter{ResponseWriter: w}
		defer answer.end(span)
		next.ServeHTTP(answer, r.WithContext(ctx))
	})
}

// Decided adds a decision to the span of a request.
func Decided(r *http.Request, v *policy.Verdict, took time.Duration) {
	span := trace.SpanFromContext(r.Context())
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{
		attribute.String("sluice.action", v.Action.String()), attribute.Bool("sluice.allowed", v.Allowed()),
		attribute.String("sluice.reason", v.Reason.String()), attribute.Float64("sluice.decision_seconds", took.Seconds()),
	}
	if v.Rule != nil {
		attributes = append(attributes, attribute.String("sluice.rule", v.Rule.Name))
	}
	if v.TightestLimit != nil {
		attributes = append(attributes, attribute.String("sluice.limit", v.TightestLimit.Name()), attribute.Bool("sluice.degraded", v.FellBack()))
	}
	if v.Known() {
		attributes = append(attributes, attribute.Int64("sluice.remaining", v.Tightest.Remaining))
	}
	if v.Delay > 0 {
		attributes = append(attributes, attribute.Float64("sluice.delay_seconds", v.Delay.Seconds()))
	}
	if wait := v.RetryAfter(); !v.Allowed() && wait > 0 {
		attributes = append(attributes, attribute.Float64("sluice.retry_after_seconds", wait.Seconds()))
	}
	span.SetAttributes(attributes...)
}
