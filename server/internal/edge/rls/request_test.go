package rls

import (
	"bytes"
	"testing"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// samples are requests in bytes: all fields, and forms that clients may choose.
func samples(tb testing.TB) map[string][]byte {
	tb.Helper()
	full := generated("a", "1", "b", "ü")
	full.HitsAddend, full.IsNegativeHits = wrapperspb.UInt64(1<<40), true
	full.Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typepb.RateLimitUnit(7)}
	zero := generated()
	zero.HitsAddend = wrapperspb.UInt64(0)
	b, err := proto.Marshal(&ratelimitpb.RateLimitRequest{Domain: "d", HitsAddend: 3, Descriptors: []*commonpb.RateLimitDescriptor{full, zero, generated("k", "")}})
	if err != nil {
		tb.Fatal(err)
	}
	unknown := protowire.AppendString(protowire.AppendTag(bytes.Clone(b), 99, protowire.BytesType), "new")
	group := protowire.AppendTag(protowire.AppendTag(bytes.Clone(b), 50, protowire.StartGroupType), 50, protowire.EndGroupType)
	return map[string][]byte{
		"all fields":             b,
		"empty":                  {},
		"unknown fields":         unknown,
		"a group":                group,
		"an open group":          protowire.AppendTag(nil, 50, protowire.StartGroupType),
		"another type of field":  protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 5),
		"cut":                    b[:len(b)-1],
		"twice":                  append(bytes.Clone(b), b...),
		"no UTF-8":               {1<<3 | 2, 1, 0xff},
		"a long size":            {2<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"an inner size too long": {2<<3 | 2, 2, 1<<3 | 2, 9},
		"hits of many bits":      append([]byte{3 << 3}, protowire.AppendVarint(nil, 1<<40|5)...),
		"field zero":             {0, 0},
		"a field too large":      {0x80, 0x80, 0x80, 0x80, 0x30, 0x30},
	}
}

// agree checks that the bytes are read as package proto reads them.
func agree(t *testing.T, b []byte) {
	t.Helper()
	var want ratelimitpb.RateLimitRequest
	c := &call{}
	wrong, err := proto.Unmarshal(b, &want), c.UnmarshalWire(b)
	if c.count > mostDescriptors || c.deep {
		return // the rest is not read
	}
	if (wrong == nil) != (err == nil) {
		t.Fatalf("%x: %v; package proto: %v", b, err, wrong)
	}
	if err != nil {
		return
	}
	if c.domain != want.GetDomain() || c.hits != want.GetHitsAddend() || len(c.descriptors) != len(want.GetDescriptors()) || c.count != len(c.descriptors) {
		t.Fatalf("%x: %+v; want %v", b, c, &want)
	}
	for i, d := range want.GetDescriptors() {
		got := c.descriptors[i]
		same := len(got.Entries) == len(d.GetEntries()) && got.Refund == d.GetIsNegativeHits() &&
			c.each[i] == hits{d.GetHitsAddend() != nil, d.GetHitsAddend().GetValue()} &&
			c.overrides[i].set == (d.GetLimit() != nil) && c.overrides[i].count == d.GetLimit().GetRequestsPerUnit() && c.overrides[i].unit == uint32(d.GetLimit().GetUnit())
		for j, e := range d.GetEntries() {
			same = same && got.Entries[j].Key == e.GetKey() && got.Entries[j].Value == e.GetValue()
		}
		if !same {
			t.Fatalf("%x: descriptor %d: %+v %+v %+v; want %v", b, i, got, c.each[i], c.overrides[i], d)
		}
	}
}

// TestRequestsAreReadAsPackageProtoReads compares what is read with what package proto reads.
func TestRequestsAreReadAsPackageProtoReads(t *testing.T) {
	for name, b := range samples(t) {
		t.Run(name, func(t *testing.T) { agree(t, b) })
	}
}

// FuzzRequest compares what is read of any bytes with what package proto reads.
func FuzzRequest(f *testing.F) {
	for _, b := range samples(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		agree(t, b)
		c := &call{}
		if c.UnmarshalWire(b) == nil {
			_ = c.check() // whatever it finds, it does not panic
		}
	})
}

// TestMergedOverride checks that a limit that comes in two parts is read as one.
func TestMergedOverride(t *testing.T) {
	wrapped := func(n uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), n)
	}
	part := func(count uint64, multiple []byte) []byte {
		b := appendNumber(nil, 1, count)
		return protowire.AppendBytes(protowire.AppendTag(appendNumber(b, 2, 2), 3, protowire.BytesType), multiple)
	}
	d := append(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), part(5, wrapped(10))),
		protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), part(0, nil))...)
	b := append(appendText(nil, 1, "d"), protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), d)...)
	c := &call{}
	if err := c.UnmarshalWire(b); err != nil {
		t.Fatal(err)
	}
	if err := c.check(); err != nil || c.descriptors[0].Limit.String() != "5/10m" {
		t.Errorf("the two parts are read as %v, %v; want 5/10m", c.descriptors[0].Limit, err)
	}
}

// TestReusedCallsHaveNothingOfBefore checks that a call that is used again has nothing of its last request.
func TestReusedCallsHaveNothingOfBefore(t *testing.T) {
	c := &call{}
	for _, b := range samples(t) {
		_ = c.UnmarshalWire(b) // some are malformed
		c.reset()
		for _, e := range c.entries[:cap(c.entries)] {
			if e.Key != "" || e.Value != "" {
				t.Fatalf("an entry of the last request is left: %+v", e)
			}
		}
		for _, d := range c.descriptors[:cap(c.descriptors)] {
			if d.Entries != nil || d.Limit != nil || d.Refund {
				t.Fatalf("a descriptor of the last request is left: %+v", d)
			}
		}
	}
}
