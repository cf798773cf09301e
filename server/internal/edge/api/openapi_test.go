package api

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// TestDescribesEachCall compares the calls of the API with the calls in openapi.yaml.
func TestDescribesEachCall(t *testing.T) {
	s := serve(t, perClient, nil)
	paths, _, err := describedBy(t).at("paths")
	if err != nil {
		t.Fatal(err)
	}
	var said, there []string
	for path, item := range paths {
		for method := range item.(map[string]any) {
			if method != "description" {
				said = append(said, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for path, calls := range s.api.calls {
		for _, c := range calls {
			there = append(there, c.method+" "+path)
		}
	}
	there = append(there, "GET "+pressurePath+"/{rule}")
	slices.Sort(said)
	slices.Sort(there)
	if !slices.Equal(said, there) {
		t.Errorf("openapi.yaml describes\n%q, the API has\n%q", said, there)
	}
	res, err := http.Get(s.url + "/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.ContentLength != int64(len(OpenAPI)) {
		t.Errorf("/openapi.yaml answers %d, %d bytes", res.StatusCode, res.ContentLength)
	}
}

// TestDescribesEachField compares the fields of requests and answers with the fields in openapi.yaml. A field that an answer
// always has is required there.
func TestDescribesEachField(t *testing.T) {
	d := describedBy(t)
	requests := map[string]any{
		"DecisionRequest": request{}, "Reservation": reservation{}, "Settlement": settlement{}, "Cancellation": cancellation{},
		"NewBan": newBan{}, "KeyOfRule": keyOfRule{}, "NewOverride": newOverride{}, "UnitsToGrant": given{},
	}
	answers := map[string]any{
		"Decision": decision{}, "LimitDecision": limitDecision{}, "Waits": wire.Waits{}, "Handling": handling{}, "Answer": answer{},
		"Ended": ended{}, "Renewed": renewed{}, "Reset": resets{}, "Bans": wire.Bans{}, "Ban": wire.Ban{}, "Banned": banned{}, "Lifted": lifted{},
		"Keys": wire.Keys{}, "DeniedKey": wire.DeniedKey{}, "Trial": wire.Trial{}, "Usage": wire.Usage{}, "LimitUsage": wire.LimitUsage{}, "AheadUsage": wire.AheadUsage{}, "Hybrid": wire.Hybrid{}, "HybridLimit": wire.HybridLimit{}, "HybridKey": wire.HybridKey{},
		"Override": wire.Override{}, "Overrides": wire.Overrides{}, "OverriddenRules": wire.OverriddenRules{},
		"OverrideChanged": wire.OverrideChanged{}, "OverridesChanged": wire.OverridesChanged{}, "Pressures": pressures{}, "Pressure": pressure{}, "Problem": problem{},
	}
	// Schemas above have their fields, or they have no struct.
	others := []string{"Questions", "Batch", "Answers", "RequestFields", "CostFields", "KeyToReset", "Texts", "Reason", "RuleName", "KeyValues", "PressureRatio", "NewOverrides", "OverridesToUnset", "OverrideNumbers"}
	schemas, _, err := d.at("components", "schemas")
	if err != nil {
		t.Fatal(err)
	}
	for name := range schemas {
		if requests[name] == nil && answers[name] == nil && !slices.Contains(others, name) {
			t.Errorf("no struct has the fields of schema %s: add it to a table of this test", name)
		}
	}
	for name, v := range requests {
		said, _ := d.fields(t, name)
		if there := slices.Sorted(maps.Keys(fieldsIn(reflect.TypeOf(v)))); !slices.Equal(said, there) {
			t.Errorf("%s has the fields\n%q, in the code\n%q", name, said, there)
		}
	}
	for name, v := range answers {
		said, always := d.fields(t, name)
		code := fieldsIn(reflect.TypeOf(v))
		there := slices.Sorted(maps.Keys(code))
		if !slices.Equal(said, there) {
			t.Errorf("%s has the fields\n%q, in the code\n%q", name, said, there)
		}
		if there = slices.DeleteFunc(there, func(f string) bool { return !code[f] }); !slices.Equal(always, there) {
			t.Errorf("%s requires\n%q, the code always writes\n%q", name, always, there)
		}
	}
}

// fields returns the fields of a schema, and its required fields.
func (d *description) fields(t *testing.T, name string) (all, required []string) {
	t.Helper()
	schema, _, err := d.at("components", "schemas", name)
	if err != nil {
		t.Fatal(err)
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		all = slices.Collect(maps.Keys(properties))
	}
	for _, f := range list(schema["required"]) {
		required = append(required, f.(string))
	}
	for _, part := range list(schema["allOf"]) {
		ref := part.(map[string]any)["$ref"].(string)
		more, alsoRequired := d.fields(t, ref[strings.LastIndex(ref, "/")+1:])
		all, required = append(all, more...), append(required, alsoRequired...)
	}
	slices.Sort(all)
	slices.Sort(required)
	return all, required
}

func list(v any) []any {
	l, _ := v.([]any) // nil for a schema that has no such list
	return l
}

// fieldsIn returns the fields of a struct in JSON, and whether the JSON always has them.
func fieldsIn(of reflect.Type) map[string]bool {
	all := map[string]bool{}
	for _, f := range reflect.VisibleFields(of) {
		if len(f.Index) > 1 {
			continue // of a struct inside
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch kind := f.Type; {
		case name == "-": // JSON never has it
		case name != "":
			all[name] = !strings.HasPrefix(options, "omit")
		case kind.Kind() == reflect.Pointer: // of a struct that is not always there
			for name := range fieldsIn(kind.Elem()) {
				all[name] = false
			}
		default:
			maps.Copy(all, fieldsIn(kind))
		}
	}
	return all
}
