package logs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// parser reads the lines of a file.
type parser interface {
	// parse sets a blank record. It returns why a line is not a record, and an empty text if it is one.
	parse(line string, rec *Record) (why string)
	// exact returns how exact the last time was.
	exact() time.Duration
}

func (s *stamps) exact() time.Duration { return s.blur }

// format is a way to write lines.
type format struct {
	layout Layout
	parser func() parser // makes the parser of a file
}

// builder collects what the fields of a format give.
type builder struct {
	layout *Layout
	set    []Setting
	used   []bool   // which of the settings have a field
	known  []string // the names of the fields
	timed  bool     // a field has the time
}

func newBuilder(o *Options, name string) *builder {
	return &builder{layout: &Layout{Format: name}, set: o.Set, used: make([]bool, len(o.Set))}
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

// fields returns what is done with the field of this name: what the format does, and what the settings add.
func (b *builder) fields(name string, does field) []field {
	var fs []field
	if does.kind != ignored {
		fs = append(fs, does)
		b.layout.Has |= has[does.kind]
		b.timed = b.timed || does.kind == stamp || does.kind == clock
	}
	if name != "" {
		b.known = append(b.known, name)
	}
	for i, s := range b.set {
		if s.Field == name {
			b.used[i] = true
			fs = append(fs, b.named(canonical(s.Name)))
		}
	}
	return fs
}

func canonical(n Name) Name {
	if n.Source == "header" {
		return header(n.Name)
	}
	return n
}

// check refuses settings whose field the format does not have.
func (b *builder) check() error {
	for i, s := range b.set {
		if !b.used[i] {
			return fmt.Errorf("logs: %s:%s is set from the field %s, which the format %s does not have; its fields are %s",
				s.Name.Source, s.Name.Name, s.Field, b.layout.Format, strings.Join(b.known, ", "))
		}
	}
	return nil
}

// needing makes the format of a template that the options have.
func (b *builder) needing(t *template) (*format, error) {
	switch need := HasMethod | HasTarget; {
	case !b.timed:
		return nil, fmt.Errorf("logs: the format %s has no time of a known form", b.layout.Format)
	case b.layout.Has&need != need:
		return nil, fmt.Errorf("logs: the format %s has no request line, and not both a method and a path", b.layout.Format)
	}
	return b.of(t)
}

// of makes the format of a template.
func (b *builder) of(t *template) (*format, error) {
	t.finish()
	b.layout.Ends = t.ends && b.layout.Has&HasDuration == 0
	if err := b.check(); err != nil {
		return nil, err
	}
	return &format{layout: *b.layout, parser: func() parser {
		own := *t
		return &own
	}}, nil
}

// formats are the formats by their names. The parameter is what follows the name and a colon.
var formats = []struct {
	name  string
	build func(o *Options, parameter string) (*format, error)
}{
	{"combined", combined},
	{"nginx", nginx},
	{"apache", apache},
}

// build makes the format that the options name.
func build(o *Options, text string) (*format, error) {
	name, parameter, _ := strings.Cut(text, ":")
	var names []string
	for _, f := range formats {
		if f.name == name {
			return f.build(o, parameter)
		}
		names = append(names, f.name)
	}
	return nil, fmt.Errorf("logs: the format %s is unknown; take auto, or one of %s", printable(text), strings.Join(names, ", "))
}

// choose finds the format, and how exact its times are.
func (r *Reader) choose() error {
	var err error
	if f := r.options.Format; f == "" || f == "auto" {
		r.format, err = r.detect()
	} else {
		r.format, err = build(&r.options, f)
	}
	if err != nil {
		return err
	}
	r.layout = r.format.layout
	r.layout.Blur = time.Second
	for _, s := range r.files {
		p := r.format.parser()
		for _, line := range sample(s.text) {
			if rec := r.blank(); p.parse(line, &rec) == "" {
				r.layout.Blur = min(r.layout.Blur, p.exact())
			}
		}
	}
	return nil
}

// detect finds the format that reads the most of the first lines.
func (r *Reader) detect() (*format, error) {
	var lines []string
	for _, s := range r.files {
		if lines = sample(s.text); len(lines) > 1 || s.text != "" {
			break
		}
	}
	var best *format
	most, total := 0, 0
	for _, candidate := range formats {
		f, err := candidate.build(&r.options, "")
		if err != nil {
			continue
		}
		r.layout = f.layout
		p, read, seen := f.parser(), 0, 0
		for _, line := range lines {
			rec := r.blank()
			switch why := p.parse(line, &rec); why {
			case "", noRequest:
				read++
				seen++
			case noLine:
			default:
				seen++
			}
		}
		if read > most {
			best, most, total = f, read, seen
		}
	}
	if most == 0 || 2*most < total {
		return nil, fmt.Errorf("logs: no known format fits the first lines of %s; name the format, such as nginx:'FORMAT' with the log_format of nginx, or json:FIELDS", r.options.Files[0])
	}
	return best, nil
}
