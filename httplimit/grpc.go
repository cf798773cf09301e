package httplimit

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// maxPushback is the longest wait after which the retry policy of a client should repeat a call, as in module grpclimit.
const maxPushback = 10 * time.Second

// writeGRPC refuses a call of gRPC. The answer has headers only, which gRPC calls Trailers-Only: a client of gRPC takes a
// status such as 429 for a failure of the network, and may repeat the call at once.
func writeGRPC(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
	h := w.Header()
	code, _ := denial.GRPCStatus(r, v)
	wait := time.Duration(waitOf(h, denial.RetryAfter(v))) * time.Second
	p := denial.NewProblem(v)
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if len(p.ViolatedPolicies) > 0 {
		text += ": " + strings.Join(p.ViolatedPolicies, ", ")
	}
	if denial.Denies(v.Rule) {
		answer := &v.Rule.WhenLimited
		if answer.Body != "" {
			text = expand(answer.Body, int64(wait/time.Second), v.Rule.Name)
		}
		setHeader(h, answer, int64(wait/time.Second), v.Rule.Name)
	}
	h.Set("Content-Type", r.Header.Get("Content-Type"))
	h.Set("Cache-Control", "no-store")
	h.Set("Grpc-Status", strconv.Itoa(code))
	h.Set("Grpc-Message", grpcText(text))
	if wait > 0 {
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(grpcStatus(code, text, wait)))
	}
	pushback := "-1" // do not repeat
	if wait > 0 && wait <= maxPushback {
		pushback = strconv.FormatInt(wait.Milliseconds(), 10)
	}
	h.Set("Grpc-Retry-Pushback-Ms", pushback)
	w.WriteHeader(http.StatusOK)
}

// mostText bounds the text of a status, because clients bound headers.
const mostText = 1 << 10

// grpcText returns the text of a status as the header grpc-message has it.
func grpcText(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range min(len(text), mostText) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// grpcStatus returns a google.rpc.Status with a google.rpc.RetryInfo, as bytes of protocol buffers.
func grpcStatus(code int, text string, wait time.Duration) []byte {
	duration := binary.AppendUvarint([]byte{1 << 3}, uint64(wait/time.Second)) // waits of headers are whole seconds
	info := grpcField(nil, 1, duration)
	detail := grpcField(nil, 1, []byte("type.googleapis.com/google.rpc.RetryInfo"))
	detail = grpcField(detail, 2, info)
	status := binary.AppendUvarint([]byte{1 << 3}, uint64(code))
	status = grpcField(status, 2, []byte(strings.ToValidUTF8(text[:min(len(text), mostText)], "?")))
	return grpcField(status, 3, detail)
}

// grpcField appends a field that has a length.
func grpcField(b []byte, number byte, content []byte) []byte {
	return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(content))), content...)
}
