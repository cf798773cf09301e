package rls

import (
	"net/http"

	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/policy"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// call is one call: first its request, and then its answer. A pool reuses calls.
type call struct {
	service *Service

	// The request.
	domain      string
	hits        uint32
	count       int  // all descriptors, also beyond mostDescriptors
	deep        bool // a descriptor has too many entries
	descriptors []descriptors.Request
	entries     []descriptors.Entry // of all descriptors
	// each and overrides belong to the descriptors of the same index.
	each      []hits
	overrides []override

	// The answer.
	header http.Header
	names  []string // of headers, in order
	shown  policy.Verdict
	listed []policy.LimitResult // of shown
	denied bool
	out    []byte
}

// mostKept is the size of the largest answer, in bytes, whose call is reused. Larger buffers are rare, and would stay
// in memory.
const mostKept = 64 << 10

// reset prepares a call for the next request. It keeps no text of the last one.
func (c *call) reset() {
	clear(c.descriptors)
	clear(c.entries)
	c.domain, c.hits, c.count, c.deep, c.denied = "", 0, 0, false, false
	c.descriptors, c.entries, c.each, c.overrides = c.descriptors[:0], c.entries[:0], c.each[:0], c.overrides[:0]
	clear(c.listed)
	c.shown, c.listed, c.out = policy.Verdict{}, c.listed[:0], c.out[:0]
}

// free returns the call to the pool. The caller must not use the call afterwards.
func (c *call) free() {
	if cap(c.out) > mostKept || cap(c.entries) > 4*mostDescriptors {
		return
	}
	c.reset()
	c.service.calls.Put(c)
}

// SizeWire returns the size of the answer.
func (c *call) SizeWire() int { return len(c.out) }

// AppendWire appends the answer, and gives the call back.
func (c *call) AppendWire(b []byte) []byte {
	b = append(b, c.out...)
	c.free()
	return b
}

// invalid returns an error about the request of a call.
func invalid(problem string) error { return status.Error(codes.InvalidArgument, "rls: "+problem) }
