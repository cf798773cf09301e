package modelusage

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A field is a member of an object that decides, and where its value goes: a *string, *int64, *bool or *span. A member that
// is missing or null changes nothing, except that a *span gets null too.
type field struct {
	name string
	to   any
}

// span is a value in a text of JSON: the bytes from start to end. The zero value is a member that is missing.
type span struct{ start, end int }

// given reports whether there is a value in the text, other than null.
func (s span) given(text []byte) bool { return s.end > 0 && text[s.start] != 'n' }

// readFields reads fields of the object that begins at text[at]. The text is valid JSON. parent begins the names in errors.
// Services decide differently about a name that appears twice, or with other letters in upper case, so it is ErrAmbiguous.
func readFields(text []byte, at int, parent string, fields ...field) error {
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
		for k, field := range fields {
			if !bytes.EqualFold(name, []byte(field.name)) {
				continue
			}
			if string(name) != field.name {
				return fmt.Errorf("%w: member %q has other letters in upper case; write %q", ErrAmbiguous, parent+string(name), parent+field.name)
			}
			if found&(1<<k) != 0 {
				return fmt.Errorf("%w: member %q appears twice; write it once", ErrAmbiguous, parent+field.name)
			}
			found |= 1 << k
			if err := field.set(text, span{start, i}, parent); err != nil {
				return err
			}
		}
		if i = skipSpace(text, i); text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return nil
}

// set sets the field to a value. The error names the member and what to write.
func (f field) set(text []byte, value span, parent string) error {
	if to, isSpan := f.to.(*span); isSpan {
		*to = value
		return nil
	}
	if !value.given(text) {
		return nil
	}
	raw, want, ok := text[value.start:value.end], "", false
	switch to := f.to.(type) {
	case *string:
		want = "a string"
		if ok = raw[0] == '"'; ok {
			ok = json.Unmarshal(raw, to) == nil
		}
	case *int64:
		want = "a whole number of at least 0"
		*to, ok = parseCount(raw)
	case *bool:
		want = "true or false"
		*to = raw[0] == 't'
		ok = *to || raw[0] == 'f'
	}
	if !ok {
		return fmt.Errorf("modelusage: member %q is %s; write %s", parent+f.name, kindOf(raw), want)
	}
	return nil
}

// readObject reads fields of the object that a member has as its value. It reads nothing if the member is missing or null.
func readObject(text []byte, name string, value span, fields ...field) error {
	switch {
	case !value.given(text):
		return nil
	case text[value.start] != '{':
		return fmt.Errorf("modelusage: member %q is %s; write an object", name, kindOf(text[value.start:]))
	}
	return readFields(text, value.start, name+".", fields...)
}

// kindOf names the kind of a value for errors. It returns short numbers as they are, and no texts: they may be secret.
func kindOf(value []byte) string {
	switch value[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	if end := skipValue(value, 0); end <= longestCount {
		return string(value[:end])
	}
	return "a number with too many digits"
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
