package modelusage

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A field is a member of an object that decides, and where its value goes: a *string, *int64, *bool or *span, or the fields
// inside its object. A member that is missing or null changes nothing, except that a *span gets null too.
type field struct {
	name   string
	to     any
	inside []field
	alias  string // another name of the member, or ""
}

// span is a value in a text of JSON: the bytes from start to end. The zero value is a member that is missing.
type span struct{ start, end int }

// readFields reads fields of the object that begins at text[at]. The text is valid JSON. parent begins the names in errors.
// Services decide differently about a name that appears twice, or with other letters in upper case, so it is ErrAmbiguous.
func readFields(text []byte, at int, parent string, fields []field) error {
	var found uint64
	for i := skipSpace(text, at+1); text[i] != '}'; {
		end := skipValue(text, i)
		name := text[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			var plain string
			if err := json.Unmarshal(text[i:end], &plain); err != nil {
				return fmt.Errorf("modelusage: the name of a member of the body cannot be read: %w", err)
			}
			name = []byte(plain)
		}
		start := skipSpace(text, skipSpace(text, end)+1)
		i = skipValue(text, start)
		for k, f := range fields {
			if !bytes.EqualFold(name, []byte(f.name)) && (f.alias == "" || !bytes.EqualFold(name, []byte(f.alias))) {
				continue
			}
			if string(name) != f.name && string(name) != f.alias {
				return fmt.Errorf("%w: member %q has other letters in upper case; write %q", ErrAmbiguous, parent+string(name), parent+f.name)
			}
			if found&(1<<k) != 0 {
				return fmt.Errorf("%w: member %q appears twice; write it once", ErrAmbiguous, parent+f.name)
			}
			found |= 1 << k
			if err := f.read(text, span{start, i}, parent); err != nil {
				return err
			}
		}
		i = skipComma(text, i)
	}
	return nil
}

// read reads a value into the field. The error names the member and what to write.
func (f field) read(text []byte, value span, parent string) error {
	raw, want, ok := text[value.start:value.end], "", false
	to, isSpan := f.to.(*span)
	switch {
	case isSpan:
		*to = value
		return nil
	case raw[0] == 'n':
		return nil
	case f.inside != nil && raw[0] == '{':
		return readFields(text, value.start, parent+f.name+".", f.inside)
	}
	switch to := f.to.(type) {
	case nil:
		want = "an object"
	case *string:
		want, ok = "a string", raw[0] == '"' && json.Unmarshal(raw, to) == nil
	case *int64:
		want = "a whole number of at least 0"
		*to, ok = parseCount(raw)
	case *bool:
		want, *to = "true or false", raw[0] == 't'
		ok = *to || raw[0] == 'f'
	}
	if ok {
		return nil
	}
	return fmt.Errorf("modelusage: member %q is %s; write %s", parent+f.name, kindOf(raw), want)
}

// kindOf returns the kind of a value for errors. It returns short numbers as they are, and no texts: they may be secret.
func kindOf(value []byte) string {
	kinds := map[byte]string{'"': "a string", '{': "an object", '[': "an array", 't': "true", 'f': "false", 'n': "null"}
	if kind := kinds[value[0]]; kind != "" {
		return kind
	}
	if end := skipValue(value, 0); end <= longestCount {
		return string(value[:end])
	}
	return "a number with too many digits"
}

// skipComma returns the index of the element or member after a value that ends at text[i], or of the end of its array
// or object.
func skipComma(text []byte, i int) int {
	if i = skipSpace(text, i); text[i] == ',' {
		i = skipSpace(text, i+1)
	}
	return i
}

// skipSpace returns the index of the first byte at or after text[i] that is not white space.
func skipSpace(text []byte, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

// skipValue returns the index after the value that begins at text[i]. The text is valid JSON.
func skipValue(text []byte, i int) int {
	for depth := 0; ; {
		switch c := text[i]; {
		case c == '"':
			for i = textEnd(text, i+1); text[i] == '\\'; {
				i = textEnd(text, i+2)
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case depth == 0:
			for i+1 < len(text) && !endsScalar(text[i+1]) {
				i++
			}
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// isSpace reports whether a byte is white space of JSON.
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// endsScalar reports whether a byte ends a number, true, false or null.
func endsScalar(c byte) bool { return c == ',' || c == '}' || c == ']' || isSpace(c) }
