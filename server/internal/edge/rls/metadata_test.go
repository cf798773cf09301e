package rls

import (
	"maps"
	"reflect"
	"testing"
)

// The metadata of the first rule stays, whatever kinds of values the rules give. Only mappings are joined.
func TestMetadataOfSeveralRules(t *testing.T) {
	type mapping = map[string]any
	for _, c := range []struct{ first, second, want mapping }{
		{nil, mapping{"a": 1}, mapping{"a": 1}},
		{mapping{"a": 1}, nil, mapping{"a": 1}},
		{mapping{"a": 1}, mapping{"a": 2, "b": 2}, mapping{"a": 1, "b": 2}},
		{mapping{"a": mapping{"x": 1}}, mapping{"a": mapping{"x": 2, "y": 2}}, mapping{"a": mapping{"x": 1, "y": 2}}},
		{mapping{"a": mapping{"x": 1}}, mapping{"a": "text"}, mapping{"a": mapping{"x": 1}}},
		{mapping{"a": mapping{}}, mapping{"a": "text"}, mapping{"a": mapping{}}},
		{mapping{"a": "text"}, mapping{"a": mapping{"x": 2}}, mapping{"a": "text"}},
		{mapping{"a": []any{1}}, mapping{"a": []any{2}}, mapping{"a": []any{1}}},
	} {
		first, second := maps.Clone(c.first), maps.Clone(c.second)
		if got := merge(c.first, c.second); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v and %v are %v, want %v", c.first, c.second, got, c.want)
		}
		if !reflect.DeepEqual(c.first, first) || !reflect.DeepEqual(c.second, second) {
			t.Errorf("%v and %v are changed to %v and %v", first, second, c.first, c.second)
		}
	}
}
