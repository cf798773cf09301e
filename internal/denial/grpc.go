package denial

import (
	"net/http"
	"strings"

	"github.com/sluicehq/sluice/policy"
)

// IsGRPC reports whether the client of a request understands the status of gRPC: by PROTOCOL-HTTP2.md of gRPC, the
// request came over HTTP/2, and has the content type application/grpc, with or without the name of a codec.
func IsGRPC(r *http.Request) bool {
	if r == nil || r.ProtoMajor != 2 || r.Method != http.MethodPost {
		return false
	}
	rest, found := strings.CutPrefix(r.Header.Get("Content-Type"), grpcType)
	return found && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// grpcType is the content type of gRPC.
const grpcType = "application/grpc"

// grpcCodes are the codes of google.rpc.Code that fit the statuses of denials. Module grpclimit has the same table.
var grpcCodes = map[int]int{
	http.StatusBadRequest:          3,  // INVALID_ARGUMENT
	http.StatusUnauthorized:        16, // UNAUTHENTICATED
	http.StatusForbidden:           7,  // PERMISSION_DENIED
	http.StatusNotFound:            5,  // NOT_FOUND
	http.StatusConflict:            10, // ABORTED
	http.StatusInternalServerError: 13, // INTERNAL
	http.StatusNotImplemented:      12, // UNIMPLEMENTED
	http.StatusServiceUnavailable:  14, // UNAVAILABLE
	http.StatusGatewayTimeout:      4,  // DEADLINE_EXCEEDED
}

const resourceExhausted = 8

// GRPCStatus returns the status of gRPC with which httplimit.WriteDenied refuses a request, such as 8 for
// RESOURCE_EXHAUSTED. The status of HTTP is 200 then. For a request that is not a call of gRPC, found is false.
func GRPCStatus(r *http.Request, v *policy.Verdict) (code int, found bool) {
	if !IsGRPC(r) {
		return 0, false
	}
	if code, found = grpcCodes[Status(v)]; !found {
		code = resourceExhausted
	}
	return code, true
}
