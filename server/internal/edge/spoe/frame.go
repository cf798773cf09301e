package spoe

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// The types of frames.
const (
	frameRest              = 0 // the second and further parts of a fragmented frame
	frameHaproxyHello      = 1
	frameHaproxyDisconnect = 2
	frameNotify            = 3
	frameAgentHello        = 101
	frameAgentDisconnect   = 102
	frameAck               = 103
)

// The flags of frames.
const (
	flagFin   = 1 // the frame is whole, or the last part
	flagAbort = 2 // the frame is given up
)

// Bounds of what HAProxy sends, in bytes.
const (
	leastFrame  = 256      // the least size that each side accepts
	mostFrame   = 64 << 10 // without the length before it
	mostPayload = 128 << 10
)

// frame is a frame without its length. The payload is a part of the buffer that it was read from.
type frame struct {
	kind          byte
	flags         uint32
	stream, frame uint64
	payload       []byte
}

// The status codes of disconnections.
const (
	statusNormal          = 0
	statusTooBig          = 3
	statusInvalid         = 4
	statusNoVersion       = 5
	statusNoSize          = 6
	statusNoCapabilities  = 7
	statusVersion         = 8
	statusSize            = 9
	statusInterlaced      = 11
	statusUnknownFragment = 12
)

// disconnection is why the connection ends: HAProxy gets the status and the message.
type disconnection struct {
	status  uint32
	message string
}

func (d *disconnection) Error() string {
	return d.message + " (SPOP status " + strconv.Itoa(int(d.status)) + ")"
}

func broken(status uint32, format string, args ...any) error {
	return &disconnection{status, fmt.Sprintf(format, args...)}
}

// readFrame reads a frame that has arrived as a whole.
func readFrame(b []byte) (f frame, err error) {
	d := decoder{rest: b}
	f.kind = d.byte()
	if flags := d.bytes(4); flags != nil {
		f.flags = binary.BigEndian.Uint32(flags)
	}
	f.stream, f.frame = d.varint(), d.varint()
	if d.bad {
		return f, broken(statusInvalid, "a frame ends before its payload")
	}
	f.payload = d.rest
	return f, nil
}

// beginFrame appends the length and the head of a frame. Function putLength completes the frame.
func beginFrame(b []byte, kind byte, stream, id uint64) []byte {
	b = append(b, 0, 0, 0, 0, kind, 0, 0, 0, flagFin)
	return appendVarint(appendVarint(b, stream), id)
}

// appendDisconnect appends the frame that ends a connection.
func appendDisconnect(b []byte, why *disconnection) []byte {
	at := len(b)
	b = beginFrame(b, frameAgentDisconnect, 0, 0)
	b = appendUint32Value(appendText(b, "status-code"), why.status)
	b = appendStringValue(appendText(b, "message"), why.message)
	putLength(b, at)
	return b
}
