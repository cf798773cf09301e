package logs

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// parser reads the lines of a file.
type parser interface {
	// when sets the time and the duration of a record that has neither. It returns why a line is not a record, and an
	// empty text if it may be one.
	when(line string, rec *Record) (why string)
	// parse sets all but the time.
	parse(line string, rec *Record) (why string)
	// exact returns how exact the last time was.
	exact() time.Duration
	// clone returns a parser for another file.
	clone() parser
}

// setter sets fields of a record from a line. It returns why the line is not a record, and an empty text if it may be one.
type setter interface {
	set(line string, rec *Record, s *state) (why string)
}

// lineReader reads the lines of a file, each in two steps.
type lineReader struct {
	state
	times, others setter // the time and what it depends on, and all but the time
}

func (l *lineReader) when(line string, rec *Record) (why string) {
	if line == "" {
		return noLine
	}
	rec.At = unknownTime
	switch why = l.times.set(line, rec, &l.state); {
	case why != "":
	case rec.At == unknownTime:
		return otherLine
	case l.ends && rec.Duration > 0:
		rec.At -= rec.Duration
	}
	return why
}

func (l *lineReader) parse(line string, rec *Record) (why string) {
	if why = l.others.set(line, rec, &l.state); why == "" && (rec.Method == "" || rec.Target == "") {
		return noRequest
	}
	return why
}

func (l *lineReader) exact() time.Duration { return l.blur }
func (l lineReader) clone() parser         { return &l }

// format is a way to write lines.
type format struct {
	layout Layout
	parser parser // to clone
	err    error  // settings that it cannot fulfil
}

// builder collects what the fields of a format give.
type builder struct {
	*words
	layout  *Layout
	options *Options
	least   int
	set     []Setting       // which fields have which names
	used    map[string]bool // which of the settings have a field
	known   []string        // the names of the fields
	finest  [2]kind         // of times, and of durations
}

// named returns the field of a name.
func (b *builder) named(n Name) field {
	i := slices.Index(b.layout.Names, n)
	if i < 0 {
		i = len(b.layout.Names)
		b.layout.Names = append(b.layout.Names, n)
	}
	return field{kind: value, index: i}
}

// fields returns what is done with the field of this name: what the server's words say, and what the settings add.
func (b *builder) fields(name string) []field {
	var fs []field
	known := name
	f, found := field{kind: b.kinds[name]}, b.kinds[name] != ignored
	for _, a := range b.words.named {
		n, ok := a.name(name)
		if !ok || found {
			continue
		}
		if known = n.Name; b.wants(n) {
			f, found = b.named(n), true
		}
	}
	if found {
		fs = append(fs, f)
		b.layout.Has |= has[f.kind]
		switch {
		case f.kind.isTime():
			b.finest[0] = max(b.finest[0], f.kind)
		case f.kind.isDuration():
			b.finest[1] = max(b.finest[1], f.kind)
		}
	}
	b.known = append(b.known, name)
	for _, s := range b.words.set {
		if s.Field == name && b.wants(s.Name) {
			fs = append(fs, b.named(s.Name))
		}
	}
	for _, s := range b.set {
		if s.Field == name || s.Field == known {
			b.used[s.Field] = true
			fs = append(fs, b.named(canonical(s.Name)))
		}
	}
	return fs
}

// wants reports whether a name is of use: a wanted one, or a header that has the wanted one.
func (b *builder) wants(n Name) bool {
	return slices.ContainsFunc(b.options.Wanted, func(w Name) bool {
		return canonical(w) == n || w.Source == "cookie" && n == Name{"header", "Cookie"} || w.Source == "claim" && n == Name{"header", "Authorization"}
	})
}

// name returns the part of the request that a field has.
func (a affix) name(text string) (Name, bool) {
	text, before := strings.CutPrefix(text, a.before)
	text, after := strings.CutSuffix(text, a.after)
	if a.folded {
		text = strings.ReplaceAll(text, "_", "-")
	}
	return canonical(Name{a.source, text}), before && after && text != ""
}

func canonical(n Name) Name {
	if n.Source == "header" || n.Source == "response" {
		n.Name = http.CanonicalHeaderKey(n.Name)
	}
	return n
}

// template makes a template of a text with the server's variables.
func (b *builder) template(text string) (*lineReader, error) {
	t := &template{}
	text = strings.NewReplacer(`\"`, `"`, `\t`, "\t", `\n`, "", `\\`, `\`).Replace(text)
	if b.rewrite != nil {
		text = b.rewrite(text)
	}
	from := 0
	for _, v := range b.variable.FindAllStringSubmatchIndex(text, -1) {
		t.literal(text[from:v[0]])
		from = v[1]
		name := text[max(v[2], 0):max(v[3], 0)] + text[v[4]:v[5]]
		if name == "%" {
			t.literal(name)
			continue
		}
		if n := len(t.pieces) - 1; n >= 0 && t.pieces[n].end == "" {
			before := t.pieces[n].fields
			if len(before) == 0 || before[0].kind != path && before[0].kind != target || b.kinds[name] != query && name != "is_args" {
				return nil, fmt.Errorf("logs: the format %s has nothing between %s and the field before it; write a space between them", printable(b.layout.Format), printable(name))
			}
			before[0].kind = target
			b.layout.Has |= has[target]
			continue
		}
		p := piece{fields: b.fields(name)}
		p.list = strings.HasPrefix(name, "upstream_")
		if name == "t" { // Apache adds brackets
			t.literal("[")
			p.end = "]"
		}
		t.pieces = append(t.pieces, p)
	}
	t.literal(text[from:])
	return t.reader(b, cmp.Or(b.least, len(t.pieces))), nil
}

// part returns the fields of which a request's beginning is computed, or all but the times. A format with several times or durations
// uses only the last kind.
func (b *builder) part(fields []field, times bool) (some []field) {
	for _, f := range fields {
		k := f.kind
		coarse := k.isTime() && k != b.finest[0] && (k != day || b.finest[0] != clock) || k.isDuration() && k != b.finest[1]
		if !coarse && (k.isDuration() || k.isTime() == times) {
			some = append(some, f)
		}
	}
	return some
}

// format checks what the fields give.
func (b *builder) format(p parser) (*format, error) {
	switch need := HasMethod | HasTarget; {
	case b.finest[0] == ignored:
		return nil, fmt.Errorf("logs: the format %s has no time of a known form; add one, such as $msec of nginx", printable(b.layout.Format))
	case b.layout.Has&need != need:
		return nil, fmt.Errorf("logs: the format %s has no request line, and not both a method and a path; add them", printable(b.layout.Format))
	}
	f := &format{parser: p}
	for _, s := range b.set {
		if !b.used[s.Field] {
			f.err = fmt.Errorf("logs: %s:%s is set from the field %s, which the format %s does not have; its fields are %s",
				s.Name.Source, s.Name.Name, s.Field, printable(b.layout.Format), printable(strings.Join(b.known, ", ")))
		}
	}
	b.layout.Ends = b.ends && b.finest[1] == ignored
	f.layout = *b.layout
	return f, nil
}

// kindOfFormat is a format by its name. A name may have several.
type kindOfFormat struct {
	name    string
	words   *words
	text    string // of a template; empty if the parameter has it, which follows the name and a colon
	example string // of a parameter
	least   int    // how many fields of a template a line must have, if not all
	build   func(b *builder, text string, first []string) (*format, error)
}

func fromTemplate(b *builder, text string, _ []string) (*format, error) {
	t, err := b.template(text)
	if err != nil {
		return nil, err
	}
	return b.format(t)
}

// choose finds the format, and how exact its times are.
func (r *Reader) choose() error {
	var first []string
	for _, s := range r.files {
		if first = s.sample; len(first) > 0 {
			break
		}
	}
	name, parameter, _ := strings.Cut(r.options.Format, ":")
	auto := name == "" || name == "auto"
	most, enough := -1, false
	err := unfit(name, parameter)
	for _, k := range formats {
		if !auto && k.name != name || (k.example != "") != (parameter != "") {
			continue
		}
		b := &builder{words: k.words, layout: &Layout{Format: k.name}, options: &r.options, least: k.least, set: slices.Clone(r.options.Set), used: map[string]bool{}}
		if parameter != "" {
			b.layout.Format += ":" + parameter
		}
		f, failed := k.build(b, cmp.Or(parameter, k.text), first)
		if failed != nil {
			err = failed
		} else if read, seen, _ := r.try(f, first); read > most {
			most, enough, r.format = read, read > 0 && 2*read >= seen, f
		}
	}
	switch {
	case auto && !enough:
		return fmt.Errorf("logs: no known format fits the first lines of %s; name the format, such as nginx:'FORMAT' with the log_format of nginx, or json:FIELDS", r.options.Files[0])
	case r.format == nil:
		return err
	case r.format.err != nil:
		return r.format.err
	}
	r.layout = r.format.layout
	r.layout.Blur = time.Second
	return nil
}

// unfit returns the error for a format of which no kind fits the name and the parameter.
func unfit(name, parameter string) error {
	var names []string
	known, example := false, ""
	for _, k := range formats {
		names = append(names, k.name)
		if k.name == name {
			known, example = true, cmp.Or(k.example, example)
		}
	}
	switch {
	case !known:
		return fmt.Errorf("logs: the format %s is unknown; take auto, or one of %s", printable(name), strings.Join(slices.Compact(names), ", "))
	case parameter == "":
		return fmt.Errorf("logs: the format %s needs a parameter, such as %s:'%s'", name, name, example)
	default:
		return fmt.Errorf("logs: the format %s has no parameter; write %s", name, name)
	}
}

// try reads lines. It returns how many it reads of how many that are not comments, and the time of the first request.
func (r *Reader) try(f *format, lines []string) (read, seen int, first int64) {
	p, rec := f.parser.clone(), &Record{}
	first = unknownTime
	for _, line := range lines {
		r.layout.Names = f.layout.Names
		r.reset(rec)
		why := p.when(line, rec)
		if why == "" {
			r.layout.Blur = min(r.layout.Blur, p.exact())
			if first == unknownTime {
				first = rec.At
			}
			why = p.parse(line, rec)
		}
		switch why {
		case "", noRequest:
			read++
			seen++
		case noLine:
		default:
			seen++
		}
	}
	return read, seen, first
}
