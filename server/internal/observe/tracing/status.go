package tracing

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// statusWriter keeps the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int // 0 before the final one
}

// WriteHeader keeps the final status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes with status 200 if there was none.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Flush is a method of most writers, which programs look for.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController find the methods of the writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end adds the status to the span, if it is known: a connection that was taken over, or a handler that panicked, has none.
func (w *statusWriter) end(span trace.Span) {
	if w.status == 0 {
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", w.status))
	if w.status >= 500 {
		span.SetStatus(codes.Error, "")
	}
}
