package logs

import "strings"

// columns reads lines whose fields a line #Fields names, in W3C's extended format.
type columns struct {
	state
	b      *builder
	byName map[string][]field
	header string
	times  [][]field // by the index of a column
	others [][]field
	begun  bool // there was a line after the header
}

// cloudfrontFields are the columns of CloudFront's standard logs, for files without their first lines.
const cloudfrontFields = `date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end`

// otherFields says that the columns of a file change.
const otherFields = "its fields are not the fields of the lines before; split the file here"

func (c *columns) when(line string, rec *Record) (why string) {
	if line == "" || line[0] == '#' {
		if header, found := strings.CutPrefix(line, "#Fields:"); found && c.use(header) && c.begun {
			return otherFields
		}
		return noLine
	}
	c.begun = true
	rec.At = unknownTime
	if why = c.set(c.times, line, rec); why == "" && rec.At == unknownTime {
		return noTime
	}
	if why == "" && rec.Duration > 0 {
		rec.At -= rec.Duration
	}
	return why
}

func (c *columns) parse(line string, rec *Record) (why string) {
	c.room, c.escaped = c.room[:0], true
	return c.set(c.others, line, rec)
}

// use uses the columns of a header. It reports whether they are other ones than before.
func (c *columns) use(header string) bool {
	if header == c.header || c.begun {
		return header != c.header
	}
	c.header, c.times, c.others = strings.Clone(header), nil, nil
	for _, name := range strings.Fields(header) {
		times, others := c.b.split(c.byName[name])
		c.times, c.others = append(c.times, times), append(c.others, others)
	}
	return true
}

// set sets the fields of columns. They end at tabs, or at spaces if there is no tab.
func (c *columns) set(fields [][]field, line string, rec *Record) (why string) {
	end := byte(' ')
	if strings.IndexByte(line, '\t') >= 0 {
		end = '\t'
	}
	more := true
	for _, fs := range fields {
		if !more {
			return otherLine
		}
		text := line
		if i := strings.IndexByte(line, end); i >= 0 {
			text, line = line[:i], line[i+1:]
		} else {
			more = false
		}
		for _, f := range fs {
			if why := f.set(rec, text, &c.state); why != "" {
				return why
			}
		}
	}
	return ""
}

// fromColumns makes the format of lines below a line #Fields, which the first lines may have.
func fromColumns(b *builder, text string, first []string) (*format, error) {
	for _, line := range first {
		if header, found := strings.CutPrefix(line, "#Fields:"); found {
			text = strings.Clone(header)
			break
		}
	}
	own := columns{b: b, byName: map[string][]field{}}
	own.escapes, own.requests = b.escapes, b.requests
	for _, name := range strings.Fields(text) {
		own.byName[name] = b.fields(name)
	}
	own.use(text)
	return b.format(func() parser {
		c := own
		return &c
	})
}
