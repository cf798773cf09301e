package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// decode reads a request's body into v, a pointer to a struct. It accepts no unknown field, no field twice,
// and nothing after the end.
func decode(r *http.Request, v any) *problem {
	b := buffers.Get().(*[]byte)
	defer keep(b)
	if p := readBody(r, b); p != nil {
		return p
	}
	if q, ok := v.(*request); ok && decodePlain(string(*b), q) {
		return nil
	}
	return decodeObject(*b, v)
}

// decodePlain reads a plain question, and reports whether it could.
func decodePlain(text string, q *request) bool {
	in := plain{text: text}
	if in.request(q); in.ended() {
		return true
	}
	*q = request{}
	return false
}

// decodeObject reads a JSON object into v.
func decodeObject(body []byte, v any) *problem {
	if _, p := checkKeys(body, fieldsOf(v)); p != nil {
		return p
	}
	return decodeValue(body, v)
}

// decodeValue reads an object whose fields were checked.
func decodeValue(body []byte, v any) *problem {
	if err := json.Unmarshal(body, v); err != nil {
		return explainJSON(err)
	}
	return nil
}

// readBody reads the body into a buffer.
func readBody(r *http.Request, b *[]byte) *problem {
	if p := acceptable(r); p != nil {
		return p
	}
	err := readAll(r.Body, b)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &problem{
			Status: http.StatusRequestEntityTooLarge, Title: "Request too large",
			Detail: fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit),
			Remedy: "send only what the policy needs, or raise http.max_body_size",
		}
	case err != nil:
		return invalid("", "The body could not be read to its end.", "send as many bytes as Content-Length says")
	}
	return nil
}

// readAll reads to the end, into a buffer that it empties first and lets grow.
func readAll(from io.Reader, to *[]byte) error {
	b := (*to)[:0]
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, max(512, len(b)))
		}
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*to = b
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// acceptable checks the headers that describe the body.
func acceptable(r *http.Request) *problem {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &problem{
			Status: http.StatusUnsupportedMediaType, Title: "Compressed request",
			Detail: "The body is compressed.", Remedy: "send the JSON as it is, without Content-Encoding",
		}
	}
	// curl sends its default type in a first try; treat it like a missing type.
	media := r.Header.Get("Content-Type")
	if media == "" || media == "application/json" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(media)
	if err != nil || (kind != "application/json" && kind != "application/x-www-form-urlencoded") {
		return &problem{
			Status: http.StatusUnsupportedMediaType, Title: "Not JSON",
			Detail: "The body's Content-Type is not application/json.", Remedy: "send JSON, with Content-Type: application/json",
		}
	}
	return nil
}

// checkKeys checks the names of a JSON object's fields. encoding/json would accept them in any case, and more
// than once. It returns the names.
func checkKeys(body []byte, known []string) (map[string]bool, *problem) {
	if !utf8.Valid(body) { // encoding/json would replace what is not
		return nil, invalid("", "The body is not UTF-8.", "send JSON in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	switch first, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil, invalid("", "The body is empty.", "send a JSON object with fields of "+strings.Join(known, ", "))
	case err != nil:
		return nil, explainJSON(err)
	case first != json.Delim('{'):
		return nil, invalid("", "This is not a JSON object.", "send one with fields of "+strings.Join(known, ", "))
	}
	seen := make(map[string]bool, len(known))
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, explainJSON(err)
		}
		name, _ := t.(string) // in an object, a key is always text
		switch {
		case !slices.Contains(known, name):
			return nil, invalid(name, fmt.Sprintf("There is no field %q.", name), suggest(name, known))
		case seen[name]:
			return nil, invalid(name, fmt.Sprintf("The field %q is given twice.", name), "give it once")
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, explainJSON(err)
		}
	}
	return seen, nil
}

// fieldNames has the names of the fields of each type, because finding them took a sixth of the time of a change.
var fieldNames sync.Map

// fieldsOf returns the names of a struct's fields in JSON. The caller may append to them.
func fieldsOf(v any) []string {
	t := reflect.TypeOf(v).Elem()
	if names, ok := fieldNames.Load(t); ok {
		return names.([]string)
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	names = slices.Clip(names) // appending copies them
	fieldNames.Store(t, names)
	return names
}

// suggest names the field that the caller probably meant, or all fields.
func suggest(name string, known []string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for _, k := range known {
		a, b := plain(k), plain(name)
		if a == b || a+"s" == b || a == b+"s" || (len(b) > 2 && strings.HasPrefix(a, b)) {
			return fmt.Sprintf("did you mean %q?", k)
		}
	}
	return "the fields are " + strings.Join(known, ", ")
}

// embedded removes the names of Go's embedded structs from the name of a field.
var embedded = strings.NewReplacer("keyOfRule.", "", "OverrideTerms.", "", "ending.", "")

// explainJSON returns the problem of a body that is not JSON, or not the expected JSON.
func explainJSON(err error) *problem {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var field *problem
	switch {
	case errors.As(err, &field):
		return field
	case errors.As(err, &kind):
		kind.Field = embedded.Replace(kind.Field)
		return invalid(kind.Field, fmt.Sprintf("%q is, or holds, a JSON %s.", kind.Field, kind.Value), "give "+wanted(kind))
	case errors.As(err, &syntax) && !strings.HasPrefix(syntax.Error(), "unexpected end"):
		return invalid("", fmt.Sprintf("The body is not JSON: %s, at byte %d.", syntax.Error(), syntax.Offset), "send one JSON object")
	case syntax != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("", "The body ends within the JSON.", "send one whole JSON object")
	default:
		return invalid("", "The body is not JSON: "+strings.TrimPrefix(err.Error(), "json: ")+".", "send one JSON object")
	}
}

// wanted describes the JSON type of a field.
func wanted(e *json.UnmarshalTypeError) string {
	f, ok := reflect.TypeFor[request]().FieldByNameFunc(func(name string) bool {
		f, _ := reflect.TypeFor[request]().FieldByName(name)
		return f.Tag.Get("json") == e.Field
	})
	switch {
	case ok && f.Type.Kind() == reflect.Map:
		return "an object of texts"
	case e.Type.Kind() == reflect.Int64:
		return "a whole number"
	case e.Type.Kind() == reflect.Bool:
		return "true or false"
	case e.Type.Kind() == reflect.Slice:
		return "a list"
	default:
		return "a text"
	}
}
