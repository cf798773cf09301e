package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// members says what is done with the member of a path, such as request.method. An object with such members is a member too.
type members map[string][]field

func (m members) add(path string, fields []field) {
	if len(fields) == 0 {
		return
	}
	m[path] = fields
	for i, c := range path {
		if _, found := m[path[:i]]; c == '.' && !found {
			m[path[:i]] = nil
		}
	}
}

// set sets the fields of an object's members. The path of the object ends with a dot, if it has one.
func (m members) set(rec *Record, path string, v gjson.Result, s *state) (why string) {
	v.ForEach(func(name, v gjson.Result) bool {
		fields, found := m[path+name.Str]
		if !found {
			return true
		}
		first, several := v, false
		if v.IsArray() { // such as the values of a header
			first, several = v.Get("0"), v.Get("1").Exists()
		}
		if first.IsObject() {
			why = m.set(rec, path+name.Str+".", first, s)
			return why == ""
		}
		for _, f := range fields {
			if several && f.kind == value {
				rec.Values[f.index] = join(v)
			} else if why = f.set(rec, textOf(first), s); why != "" {
				break
			}
		}
		return why == ""
	})
	return why
}

func textOf(v gjson.Result) string {
	if v.Type == gjson.Number || v.IsBool() {
		return v.Raw
	}
	return v.Str
}

// join returns the texts of an array, with Separator between them.
func join(v gjson.Result) string {
	var texts []string
	for _, v := range v.Array() {
		texts = append(texts, textOf(v))
	}
	return strings.Join(texts, Separator)
}

// object reads lines of JSON.
type object struct {
	members
	checks bool // that the lines are JSON
}

func (o object) set(line string, rec *Record, s *state) (why string) {
	if o.checks && !isJSON(line) {
		return otherLine
	}
	return o.members.set(rec, "", gjson.Parse(line), s)
}

// isJSON reports whether a line is JSON. gjson takes stack for each level, so the standard library reads lines that may have many.
func isJSON(line string) bool {
	const many = 1000
	if strings.Count(line, "[")+strings.Count(line, "{") > many {
		return json.Valid([]byte(line))
	}
	return gjson.Valid(line)
}

// mostPaths and deepest bound what is kept of lines that an attacker wrote.
const (
	mostPaths = 10_000
	deepest   = 8
)

// paths adds the paths of an object's members.
func paths(v gjson.Result, before string, deep int, all map[string]bool) {
	v.ForEach(func(name, v gjson.Result) bool {
		path := before + name.Str
		if all[path] = true; v.IsObject() && deep < deepest {
			paths(v, path+".", deep+1, all)
		}
		return len(all) < mostPaths
	})
}

// fromJSON makes the format of lines of JSON. It has the fields that the first lines have.
func fromJSON(b *builder, text string, first []string) (*format, error) {
	if text != "" {
		if err := b.assign(text); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	for _, line := range first {
		if len(line) > 0 && line[0] == '{' && isJSON(line) {
			paths(gjson.Parse(line), "", 1, seen)
		}
	}
	if len(seen) == 0 && len(first) > 0 {
		return nil, fmt.Errorf("logs: the first lines are not objects of JSON, which the format %s has; name the format of the log", printable(b.layout.Format))
	}
	var missing error
	if text != "" {
		for path := range b.kinds {
			if !seen[path] && len(first) > 0 {
				missing = fmt.Errorf("logs: the first lines have no member %s; they have %s", printable(path), printable(strings.Join(slices.Sorted(maps.Keys(seen)), ", ")))
			}
		}
		for _, s := range b.set[len(b.options.Set):] {
			seen[s.Field] = true // it may be rare
		}
	}
	wanted := slices.Collect(maps.Keys(b.kinds))
	for _, s := range slices.Concat(b.set, b.words.set) {
		wanted = append(wanted, s.Field)
	}
	for _, a := range b.words.named {
		for _, n := range b.options.Wanted {
			if n.Source == a.source {
				wanted = append(wanted, a.before+canonical(n).Name+a.after)
			}
		}
		if a.source == "header" {
			wanted = append(wanted, a.before+"Cookie", a.before+"Authorization")
		}
	}
	wanted = slices.DeleteFunc(wanted, func(path string) bool {
		i := strings.LastIndexByte(path, '.') // the last member may be rare
		return b.kinds[path] == ignored && !seen[path] && (i < 0 || !seen[path[:i]]) ||
			slices.Contains(b.hidden, path) && !slices.ContainsFunc(b.set, func(s Setting) bool { return s.Field == path })
	})
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	fields := make([][]field, len(wanted))
	for i, path := range wanted {
		has, finest := b.layout.Has, b.finest
		if fields[i] = b.fields(path); !seen[path] && len(first) > 0 {
			b.layout.Has, b.finest = has, finest // a later line may have it
		}
	}
	times, others := members{}, members{}
	for i, path := range wanted {
		times.add(path, b.part(fields[i], true))
		others.add(path, b.part(fields[i], false))
	}
	b.known = slices.Sorted(maps.Keys(seen))
	f, err := b.format(&lineReader{state{ends: b.ends}, object{times, false}, object{others, true}})
	return f, cmp.Or(missing, err)
}

// assigned has the names of what json:FIELDS assigns.
var assigned = map[string]kind{
	"time": stamp, "end": stamp, "duration": seconds, "duration_s": seconds, "duration_ms": millis, "duration_us": usecs, "duration_ns": nanos,
	"client": client, "method": method, "target": target, "path": path, "query": query, "request": request, "host": host,
	"status": status, "sent": sent, "received": received,
}

// assign reads FIELDS: names with the members of a line that have them, such as time=ts,method=request.method.
func (b *builder) assign(text string) error {
	own := words{kinds: map[string]kind{}}
	b.words = &own
	for part := range strings.SplitSeq(text, ",") {
		name, path, found := strings.Cut(part, "=")
		source, rest, named := strings.Cut(name, ":")
		switch {
		case found && path != "" && named && slices.Contains([]string{"header", "cookie", "query", "claim", "attribute", "response"}, source) && rest != "":
			b.set = append(b.set, Setting{Name{source, rest}, path})
		case found && path != "" && assigned[name] != ignored:
			own.kinds[path] = assigned[name]
			own.ends = own.ends || name == "end"
		default:
			return fmt.Errorf("logs: %s is not a field of json:FIELDS; write NAME=MEMBER with one of %s, or header:NAME, cookie:NAME or query:NAME, such as time=ts,client=request.ip,method=request.method,target=request.uri",
				printable(part), strings.Join(slices.Sorted(maps.Keys(assigned)), ", "))
		}
	}
	return nil
}
