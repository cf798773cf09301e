package rls

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of google.protobuf.Struct and Value.
const (
	fieldFields = 1

	fieldNull   = 1
	fieldDouble = 2
	fieldString = 3
	fieldBool   = 4
	fieldStruct = 5
	fieldList   = 6
)

// appendMetadata appends the explanation of a verdict to the dynamic metadata, where the gateway's filters and logs
// read it. The explanation has names of the configuration, and never a key. A call that no rule matches has no
// metadata.
func appendMetadata(b []byte, v *policy.DescriptorVerdict) []byte {
	if v.Reason == sluice.ReasonNoRule {
		return b
	}
	b, begin := appendBegin(b, fieldMetadata)
	b = appendStringField(b, "action", v.Action.String())
	if v.Rule != nil {
		b = appendStringField(b, "rule", v.Rule.Name)
	}
	if v.TightestLimit != nil {
		b = appendStringField(b, "limit", v.TightestLimit.Name())
	}
	if !v.Allowed() {
		b = appendStringField(b, "reason", v.Reason.String())
		if wait := v.RetryAfter(); wait > 0 {
			b = appendNumberField(b, "retry_after_seconds", float64((wait+time.Second-1)/time.Second))
		}
	}
	if v.FellBack() {
		b = appendField(b, "degraded", true)
	}
	b = appendStringField(b, "explanation", v.String())
	b = appendDescriptors(b, v)
	return appendEnd(b, begin)
}

// appendDescriptors appends the metadata of single descriptors: a shadow rule that would deny, a failed refund, and the
// metadata of the rules whose descriptors pass.
func appendDescriptors(b []byte, v *policy.DescriptorVerdict) []byte {
	var metadata map[string]any
	for i := range v.Descriptors {
		d := &v.Descriptors[i]
		if d.Rule == nil {
			continue
		}
		if d.Over && d.Allowed {
			b = appendStringField(b, "shadow", d.Rule.Name)
		}
		if d.Err != nil {
			b = appendStringField(b, "refund", "not carried out by rule "+d.Rule.Name)
		}
		if m := d.Rule.Match.Descriptor; m != nil && d.Allowed && !d.Replaced && len(m.Metadata) > 0 {
			metadata = merge(metadata, m.Metadata)
		}
	}
	if len(metadata) > 0 {
		b = appendField(b, "metadata", metadata)
	}
	return b
}

// merge returns both mappings as one. If both have a value, the first mapping's stays; nested mappings are merged.
// merge changes neither argument.
func merge(first, second map[string]any) map[string]any {
	if len(first) == 0 {
		return second
	}
	merged := maps.Clone(first)
	for name, value := range second {
		before, ok := merged[name]
		inner, isMap := before.(map[string]any)
		more, areMaps := value.(map[string]any)
		switch {
		case !ok:
			merged[name] = value
		case isMap && areMaps:
			merged[name] = merge(inner, more)
		}
	}
	return merged
}

// appendStringField appends a field of a Struct that is a text.
func appendStringField(b []byte, name, value string) []byte {
	b, begin := appendFieldBegin(b, name)
	b = appendStringValue(b, value)
	return appendFieldEnd(b, begin)
}

// appendNumberField appends a field of a Struct that is a number.
func appendNumberField(b []byte, name string, value float64) []byte {
	b, begin := appendFieldBegin(b, name)
	b = protowire.AppendFixed64(protowire.AppendTag(b, fieldDouble, protowire.Fixed64Type), math.Float64bits(value))
	return appendFieldEnd(b, begin)
}

// appendField appends a field of a Struct with a value of the configuration.
func appendField(b []byte, name string, value any) []byte {
	b, begin := appendFieldBegin(b, name)
	b = appendValue(b, value)
	return appendFieldEnd(b, begin)
}

// fieldBegin is where the entry of a map and its value began.
type fieldBegin struct{ entry, value int }

func appendFieldBegin(b []byte, name string) ([]byte, fieldBegin) {
	var at fieldBegin
	b, at.entry = appendBegin(b, fieldFields)
	b = appendText(b, 1, strings.ToValidUTF8(name, "?"))
	b, at.value = appendBegin(b, 2)
	return b, at
}

func appendFieldEnd(b []byte, at fieldBegin) []byte {
	return appendEnd(appendEnd(b, at.value), at.entry)
}

func appendStringValue(b []byte, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, fieldString, protowire.BytesType), strings.ToValidUTF8(text, "?"))
}

// appendValue appends the content of a Value: a value that YAML can have.
func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(protowire.AppendTag(b, fieldNull, protowire.VarintType), 0)
	case string:
		return appendStringValue(b, v)
	case bool:
		return protowire.AppendVarint(protowire.AppendTag(b, fieldBool, protowire.VarintType), protowire.EncodeBool(v))
	case float64:
		return protowire.AppendFixed64(protowire.AppendTag(b, fieldDouble, protowire.Fixed64Type), math.Float64bits(v))
	case map[string]any:
		b, begin := appendBegin(b, fieldStruct)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = appendField(b, name, v[name])
		}
		return appendEnd(b, begin)
	case []any:
		b, begin := appendBegin(b, fieldList)
		for _, item := range v {
			var inner int
			b, inner = appendBegin(b, 1)
			b = appendEnd(appendValue(b, item), inner)
		}
		return appendEnd(b, begin)
	default:
		// Numbers of other types, and what JSON can write.
		text, err := json.Marshal(v)
		if err != nil {
			return append(protowire.AppendTag(b, fieldNull, protowire.VarintType), 0)
		}
		var simple any
		if json.Unmarshal(text, &simple) != nil {
			return appendStringValue(b, string(text))
		}
		return appendValue(b, simple)
	}
}
