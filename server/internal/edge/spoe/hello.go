package spoe

import "strings"

// hello is the first frame of HAProxy.
type hello struct {
	size        uint32 // of the largest frame
	pipelining  bool
	healthcheck bool
}

// readHello reads the payload of a hello.
func readHello(payload []byte) (h hello, err error) {
	var versions, capabilities string
	var hasVersions, hasCapabilities, hasSize bool
	d := decoder{rest: payload}
	for len(d.rest) > 0 {
		name := string(d.text())
		switch v := d.value(); {
		case d.bad:
		case name == "supported-versions" && v.kind == kindString:
			versions, hasVersions = string(v.text), true
		case name == "capabilities" && v.kind == kindString:
			capabilities, hasCapabilities = string(v.text), true
		case name == "max-frame-size" && v.kind == kindUint32:
			hasSize = true
			h.size = uint32(min(v.n, mostFrame))
		case name == "healthcheck" && v.kind == kindBool:
			h.healthcheck = v.truth
		}
	}
	switch {
	case d.bad:
		return h, broken(statusInvalid, "the hello cannot be read")
	case !hasVersions:
		return h, broken(statusNoVersion, "supported-versions is missing")
	case !hasSize:
		return h, broken(statusNoSize, "max-frame-size is missing")
	case !hasCapabilities:
		return h, broken(statusNoCapabilities, "capabilities is missing")
	case !has(versions, func(v string) bool { return v == "2" || strings.HasPrefix(v, "2.") }):
		return h, broken(statusVersion, "this agent speaks version 2.0")
	case h.size < leastFrame:
		return h, broken(statusSize, "max-frame-size is less than %d", leastFrame)
	}
	h.pipelining = has(capabilities, func(c string) bool { return c == "pipelining" })
	return h, nil
}

// has reports whether a list has a wanted word.
func has(list string, wanted func(string) bool) bool {
	for word := range strings.SplitSeq(list, ",") {
		if wanted(strings.TrimSpace(word)) {
			return true
		}
	}
	return false
}

// appendHello appends the answer to a hello.
func appendHello(b []byte, h *hello) []byte {
	at := len(b)
	b = beginFrame(b, frameAgentHello, 0, 0)
	b = appendStringValue(appendText(b, "version"), "2.0")
	b = appendUint32Value(appendText(b, "max-frame-size"), h.size)
	// HAProxy sends fragments only to an agent that reads them.
	capabilities := "fragmentation"
	if h.pipelining {
		capabilities = "pipelining,fragmentation"
	}
	b = appendStringValue(appendText(b, "capabilities"), capabilities)
	putLength(b, at)
	return b
}
